"""``vgc functions``: functions of a CUDA program that run on either side, and the times that were measured of them.

``mynvcc`` embeds a shared library with the CPU versions into the program, with a table of their names
(``guest_driver/cuda/include/vgc_local.h``, ``guest_driver/cuda/runtime/blob.h``). The table is read from the file: nothing
of the program is run. Times are those that libcudart keeps (``guest_driver/cuda/runtime/local/state.c``).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from guest_driver.errors import InvalidArgument

HELP: Final = """Without a file: shows the functions that are registered for this VM (vgc register) and the built-in ones of the
host (docs/functions.md), with their use since the host's worker has started: launches of all processes, their mean time,
and the time that 99 of 100 did not exceed. Types of a built-in function are in one line.

With files: shows which functions of a CUDA program that mynvcc has built run on either side: kernels with CPU versions, and
__host__ __device__ functions that vgc_local_function() finds.

  vgc functions ./program
  VGC_EITHER_SIDE='sum*=cpu,auto' vgc functions ./program libkernels.so

Of kernels it shows the times that were measured on this machine (VGC_EITHER_FILE), by number of threads, and the side that
the next launch takes. Nothing of the program is run."""

_BLOB_MAGIC: Final = b"VGCUDA1\0"
_BLOB: Final = struct.Struct("<8sIIIIQ")
_HAS_LOCAL: Final = 2
_TABLE: Final = b"vgc_local_table"
_TABLE_VERSION: Final = 1
_KERNEL_BYTES: Final = 56
_FUNCTION_BYTES: Final = 24
_ELF64: Final = b"\x7fELF\x02\x01"
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_RELOCATIONS, _DYNAMIC_SYMBOLS, _NO_BYTES = 4, 11, 8
_RELATIVE: Final = 8
_FIRST_SAMPLES: Final = 3
"""Samples of each side before the faster one is chosen (``local/choice.c``)."""


class _Library:
    """Shared library with CPU versions: its data as they are once it is loaded at address 0."""

    def __init__(self, image: bytes) -> None:
        if not image.startswith(_ELF64):
            raise ValueError("not a shared library of 64 bits")
        self._image = image
        (table,) = struct.unpack_from("<Q", image, 0x28)
        size, count = struct.unpack_from("<HH", image, 0x3A)
        sections = [_SECTION.unpack_from(image, table + i * size) for i in range(count)]
        self._places = [(s[3], s[5], s[4]) for s in sections if s[3] and s[1] != _NO_BYTES]
        self._pointers = {
            at: addend
            for s in sections
            if s[1] == _RELOCATIONS
            for at, kind, addend in struct.iter_unpack("<QQq", image[s[4] : s[4] + s[5] // 24 * 24])
            if kind == _RELATIVE
        }
        self.table = next(self._symbols(sections, _TABLE), 0)

    def _symbols(self, sections: Sequence[tuple[int, ...]], wanted: bytes) -> Iterator[int]:
        for s in sections:
            if s[1] != _DYNAMIC_SYMBOLS:
                continue
            names = sections[s[6]][4]
            for name, _, value, _ in struct.iter_unpack("<IIQQ", self._image[s[4] : s[4] + s[5] // 24 * 24]):
                if self._text(names + name) == wanted:
                    yield value

    def _text(self, offset: int) -> bytes:
        return self._image[offset : self._image.index(b"\0", offset)]

    def _offset(self, address: int) -> int:
        for begin, size, offset in self._places:
            if begin <= address < begin + size:
                return int(offset + address - begin)
        raise ValueError(f"nothing lies at {address:#x}")

    def number(self, address: int) -> int:
        value: int = struct.unpack_from("<I", self._image, self._offset(address))[0]
        return value

    def pointer(self, address: int) -> int:
        return int(self._pointers[address])

    def text(self, address: int) -> str:
        return self._text(self._offset(self.pointer(address))).decode()


@dataclass(frozen=True, slots=True)
class Function:
    """Function with a CPU version. `name` is the linker's, `unit` the source file, `digest` that of all CPU versions of the
    file.
    """

    name: str
    source_name: str
    is_kernel: bool
    unit: str
    digest: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured times of launches of about as many threads: nanoseconds and samples of each side."""

    threads: int
    device_ns: int
    device_samples: int
    cpu_ns: int
    cpu_samples: int


def _digest(library: bytes) -> int:
    """FNV-1a, as ``local/library.c`` has it."""
    digest = 0xCBF29CE484222325
    for byte in library:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest


def _libraries(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Source file and library of each GPU part that has CPU versions. Other bytes may look like the begin of one."""
    at = image.find(_BLOB_MAGIC)
    while at >= 0:
        header = image[at : at + _BLOB.size]
        if len(header) == _BLOB.size:
            _, flags, name_len, options_len, reserved, text_len = _BLOB.unpack(header)
            end = _BLOB.size + name_len + options_len + text_len
            begin = at + (end + 7) // 8 * 8
            if flags & _HAS_LOCAL and reserved == 0 and begin + 8 <= len(image):
                (size,) = struct.unpack_from("<Q", image, begin)
                library = image[begin + 8 : begin + 8 + size]
                if len(library) == size and library.startswith(_ELF64):
                    name = image[at + _BLOB.size : at + _BLOB.size + name_len]
                    yield name.decode(errors="replace"), library
        at = image.find(_BLOB_MAGIC, at + 1)


def read(path: Path) -> list[Function]:
    """Functions of a program, object or shared library that have CPU versions, sorted by name.

    :raise InvalidArgument: the file is damaged.
    :raise OSError: it cannot be read.
    """
    found: list[Function] = []
    try:
        for unit, image in _libraries(path.read_bytes()):
            library, digest = _Library(image), _digest(image)
            table = library.table
            if library.number(table) != _TABLE_VERSION:
                raise InvalidArgument(f"{path}: made by another version of mynvcc: build it again")
            for count_at, rows_at, size, is_kernel in ((4, 8, _KERNEL_BYTES, True), (16, 24, _FUNCTION_BYTES, False)):
                for i in range(library.number(table + count_at)):
                    row = library.pointer(table + rows_at) + i * size
                    found.append(Function(library.text(row), library.text(row + 8), is_kernel, unit, digest))
    except (struct.error, ValueError, LookupError, OverflowError) as error:
        raise InvalidArgument(f"{path}: its CPU versions cannot be read: {error}") from error
    return sorted(found, key=lambda function: (function.unit, function.is_kernel, function.source_name, function.name))


def times_file(environment: Mapping[str, str]) -> Path | None:
    """File in which libcudart keeps times; None: it keeps none."""
    own, cache, home = (environment.get(name) for name in ("VGC_EITHER_FILE", "XDG_CACHE_HOME", "HOME"))
    if own is not None:
        return Path(own) if own else None
    if cache is not None and cache.startswith("/"):
        return Path(cache) / "virtio-gpu-compute" / "either"
    return Path(home) / ".cache/virtio-gpu-compute/either" if home is not None and home.startswith("/") else None


def read_times(path: Path | None) -> dict[tuple[int, str], list[Measured]]:
    """Measured times by digest and linker's name. Lines that libcudart has not written are left out."""
    found: dict[tuple[int, str], list[Measured]] = {}
    if path is None or not path.exists():
        return found
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        try:
            digest, name, size_class = int(words[0], 16), words[1], int(words[2])
            device_ns, device_samples, cpu_ns, cpu_samples = map(int, words[3:7])
        except (ValueError, IndexError):
            continue
        measured = Measured(1 << size_class, device_ns, device_samples, cpu_ns, cpu_samples)
        found.setdefault((digest, name), []).append(measured)
    return {key: sorted(values, key=lambda measured: measured.threads) for key, values in found.items()}


def rule_of(function: Function, sides: str) -> str:
    """Side that ``VGC_EITHER_SIDE`` names for a kernel: cpu, gpu or auto. The first rule that matches counts."""
    for rule in sides.split(","):
        pattern, equals, side = rule.partition("=")
        side = side if equals else pattern
        if not equals or fnmatchcase(function.name, pattern) or fnmatchcase(function.source_name, pattern):
            return {"cpu": "cpu", "gpu": "gpu", "host": "gpu"}.get(side, "auto")
    return "auto"


def next_side(rule: str, measured: Measured | None) -> str:
    """Side that the next launch takes, but for those that try the other side."""
    if rule != "auto":
        return {"cpu": "CPU", "gpu": "device"}[rule] + " (VGC_EITHER_SIDE)"
    if measured is None or min(measured.device_samples, measured.cpu_samples) < _FIRST_SAMPLES:
        return "to be measured"
    return "CPU" if measured.cpu_ns < measured.device_ns else "device"


def duration(nanoseconds: int, samples: int) -> str:
    """Formats a measured time for people; "-" without a sample."""
    if samples == 0:
        return "-"
    for unit, factor in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds / 1e3:.3g} us"


def _rows(function: Function, times: Sequence[Measured], sides: str) -> Iterator[tuple[str, ...]]:
    if not function.is_kernel:
        yield function.source_name, "function", "", "", "", "the caller's", function.name
        return
    rule = rule_of(function, sides)
    for measured in times or (None,):
        cells: tuple[str, ...] = ("-", "-", "-")
        if measured is not None:
            device = duration(measured.device_ns, measured.device_samples)
            cpu = duration(measured.cpu_ns, measured.cpu_samples)
            cells = (f"{measured.threads}-{2 * measured.threads - 1}", device, cpu)
        yield function.source_name, "kernel", *cells, next_side(rule, measured), function.name


def show(paths: Sequence[Path], environment: Mapping[str, str] = os.environ) -> str:
    """Formats the functions of files for people.

    :raise InvalidArgument: a file is damaged, or has no functions for either side.
    """
    times = read_times(times_file(environment))
    lines = []
    for path in paths:
        functions = read(path)
        if not functions:
            raise InvalidArgument(
                f"{path} has no functions for either side: mark kernels with __vgc_either__, or build it with "
                "mynvcc --either=PATTERN"
            )
        rows: list[tuple[str, ...]] = [("name", "kind", "threads", "device", "CPU", "side", "linker's name")]
        for function in functions:
            known = times.get((function.digest, function.name), [])
            rows += _rows(function, known, environment.get("VGC_EITHER_SIDE", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines.append(f"{path}:" if len(paths) > 1 else "")
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
    return "\n".join(line for line in lines if line)
