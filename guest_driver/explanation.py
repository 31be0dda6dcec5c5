"""``vgc explain``: the times that are kept of functions called by name, and the side that the next call takes.

All of it is read from the file that libvgc keeps (``libvgc/src/times.c``), so no device is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from guest_driver._lib import check, ffi, lib, text
from guest_driver.errors import InvalidArgument, NotFound
from guest_driver.local_functions import duration

HELP: Final = """Shows why calls of a function by its name go to the CPU or to the host: measured times of both sides for each size, with
copies, and the side that the next call takes, by the rules in VGC_SIDE or because it has been faster. Without NAME it lists
the functions of which times are kept.

  vgc explain saxpy
  VGC_SIDE='sax*=cpu:bytes<64K' vgc explain saxpy

Times lie in a file of the user's (VGC_CHOICE_FILE), which processes write when they close the device or end. Those of other
engines, or of another number of processing elements, are kept apart. It can be deleted at any time."""

_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of a function for sizes from `size_from` to below `size_to`. `host` describes the device."""

    name: str
    host: str
    size_from: int
    size_to: int
    host_ns: int
    host_samples: int
    cpu_ns: int
    cpu_samples: int


def _floor(size_class: int) -> int:
    """Smallest size of a class (``libvgc/src/choice.c``): there are two for each doubling."""
    if size_class < 2:
        return 2 * size_class
    return (1 << size_class // 2) * (2 + size_class % 2) // 2


def _parse(line: str) -> Times | None:
    """Times of a line of the file; None: libvgc has not written it."""
    words = line.split(maxsplit=7)
    try:
        owner, size_class = int(words[0], 16), int(words[2])
        numbers = [int(word) for word in words[3:7]]
        host_ns, host_samples, cpu_ns, cpu_samples = numbers
    except (ValueError, IndexError):
        return None
    if not 0 <= size_class < 2 * 64:
        return None
    host = words[7].removeprefix("# ").strip() if len(words) > 7 else f"device {owner:016x}"
    name = unquote(words[1], errors="replace")
    return Times(name, host, _floor(size_class), _floor(size_class + 1), host_ns, host_samples, cpu_ns, cpu_samples)


def read(path: Path) -> list[Times]:
    """Times that are kept in a file, in its order. Lines that libvgc has not written are left out.

    :raise OSError: it cannot be read.
    """
    if not path.is_file():
        return []
    with path.open(errors="replace") as file:
        return [times for line in file.read(_MOST_BYTES).splitlines() if (times := _parse(line)) is not None]


def times_file() -> Path | None:
    """File in which libvgc keeps times; None: it keeps none."""
    path = ffi.new("char[512]")
    try:
        check(lib.vgc_choice_file(path, 512))
    except NotFound:
        return None
    return Path(text(path))


def _rule(rules: str, times: Times) -> str | None:
    """Side that the rules name: CPU or host; None: measured times decide.

    :raise InvalidArgument: a rule cannot be understood.
    """
    side = ffi.new("uint32_t *")
    check(lib.vgc_choice_rule(rules.encode(), os.fsencode(times.name), times.size_from, ffi.NULL, side))
    return {lib.VGC_SIDE_CPU: "CPU", lib.VGC_SIDE_HOST: "host"}.get(side[0])


def next_side(times: Times, known: Sequence[Times], rules: str) -> tuple[str, str]:
    """Side of the next call, and the reason; `known` are all times of the function on the device."""
    rule = _rule(rules, times)
    if rule is not None:
        return rule, "by a rule in VGC_SIDE"
    rows, choice = ffi.new("struct vgc_choice_row[]", len(known)), ffi.new("struct vgc_choice *")
    for row, one in zip(rows, known, strict=True):
        row.size_from, row.host_ns, row.cpu_ns = one.size_from, one.host_ns, one.cpu_ns
        row.host_samples, row.cpu_samples = one.host_samples, one.cpu_samples
    check(lib.vgc_choice_pick(rows, len(known), times.size_from, choice))
    side = "CPU" if choice.side == lib.VGC_SIDE_CPU else "host"
    slow, fast = max(choice.host_ns, choice.cpu_ns), max(min(choice.host_ns, choice.cpu_ns), 1)
    if choice.why == lib.VGC_WHY_TRIED:
        return side, "to measure it"
    return side, f"{slow / fast:.3g} times as fast{_inferred(times)}"


def _inferred(times: Times) -> str:
    """Says which side's time follows from those of other sizes."""
    unknown = [side for side, samples in (("host", times.host_samples), ("CPU", times.cpu_samples)) if samples == 0]
    return f", going by the {unknown[0]}'s times for other sizes" if unknown else ""


def _bytes(size: int) -> str:
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}iB"
    return f"{size} B"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _function(known: Sequence[Times], rules: str) -> Iterator[str]:
    """Lines about one function: a table for each device."""
    for host in dict.fromkeys(times.host for times in known):
        rows: list[tuple[str, ...]] = [("size", "host", "samples", "CPU", "samples", "side", "why")]
        here = sorted((t for t in known if t.host == host), key=lambda t: t.size_from)
        for times in here:
            host_cells = (duration(times.host_ns, times.host_samples), str(times.host_samples))
            cpu_cells = (duration(times.cpu_ns, times.cpu_samples), str(times.cpu_samples))
            rows.append((f"from {_bytes(times.size_from)}", *host_cells, *cpu_cells, *next_side(times, here, rules)))
        yield f"on {host}:"
        yield from (f"  {line}" for line in _table(rows))


def show(name: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Explains the choice for a function, or lists the functions.

    :raise InvalidArgument: nothing is known about it, or a rule in ``VGC_SIDE`` cannot be understood.
    """
    path = times_file()
    if path is None:
        raise InvalidArgument("no times are kept: VGC_CHOICE_FILE is empty, or there is no home folder")
    known = read(path)
    names = sorted({times.name for times in known})
    if name is None:
        return "\n".join([f"times of {len(names)} functions in {path}", *names])
    own = [times for times in known if times.name == name]
    if not own:
        close = get_close_matches(name, names, 3, 0)
        others = f"; it has, for one, {', '.join(close)}" if close else ""
        raise InvalidArgument(f"nothing is known about '{name[:80]}' in {path}{others}")
    lines = [f"{name}: by the bytes of its buffers; times in {path}"]
    return "\n".join([*lines, *_function(own, environment.get("VGC_SIDE", ""))])
