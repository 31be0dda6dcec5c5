"""Makes cubins for the fake driver within microseconds: ELF files like those of ptxas, without code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

POINTER: Final = 8
KERNELS: Final[Mapping[str, tuple[int, ...]]] = {
    "add_one": (POINTER, 4),
    "slow": (POINTER, 4),
    "saxpy": (4, 4, POINTER, POINTER),
    "vector_add": (POINTER, POINTER, POINTER, 4),
    "read_texel": (8, 4, 4, 4, POINTER),
    "prints": (4,),
    "empty": (),
    "hang": (),
    "hang_on": (POINTER,),
    "fails": (),
    "illegal_address": (),
    "misaligned": (),
    "illegal_instruction": (),
    "trap": (),
    "timeout": (),
    "ecc": (),
    "stack_error": (),
    "watched": (4, 4, POINTER),
    "traps": (4, 4, POINTER),
    "listens": (POINTER, 4),
}
"""Kernels of the fake driver, and the sizes of their parameters."""


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    params: tuple[int, ...] = ()
    shared_bytes: int = 0
    local_bytes: int = 0
    max_threads: int = 0
    registers: int = 32

    @property
    def offsets(self) -> list[int]:
        """Offset of each parameter: aligned to its own size, up to 8."""
        offsets, at = [], 0
        for size in self.params:
            at = -(-at // min(size, 8)) * min(size, 8)
            offsets.append(at)
            at += size
        return offsets

    @property
    def param_bytes(self) -> int:
        return self.offsets[-1] + self.params[-1] if self.params else 0


@dataclass(frozen=True, slots=True)
class Global:
    name: str
    size: int
    init: bytes = b""


@dataclass(slots=True)
class Elf:
    """Sections of an ELF file, in order; names need not be unique."""

    sections: list[tuple[str, int, bytes, int, int, int]] = field(default_factory=list)
    """Name, type, contents, size, link, info of each section."""

    def add(self, name: str, kind: int, data: bytes, *, size: int | None = None, link: int = 0, info: int = 0) -> int:
        self.sections.append((name, kind, data, len(data) if size is None else size, link, info))
        return len(self.sections)  # section 0 is empty

    def image(self, flags: int) -> bytes:
        names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in self.sections) + b".shstrtab\0"
        self.add(".shstrtab", 3, names)
        body, headers, name_at = bytearray(64), bytearray(64), 1
        for name, kind, data, size, link, info in self.sections:
            body += b"\0" * (-len(body) % 16)
            entry = 24 if kind == 2 else 0
            headers += struct.pack("<IIQQQQIIQQ", name_at, kind, 2, 0, len(body), size, link, info, 16, entry)
            name_at += len(name) + 1
            body += data
        body += b"\0" * (-len(body) % 16)
        count = len(self.sections) + 1
        ident = b"\x7fELF\2\1\1\x41\x08".ljust(16, b"\0")
        header = struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, len(body), flags, 64, 56, 0, 64, count, count - 1)
        body[:64] = ident + header
        return bytes(body + headers)


def _info(kernel: Kernel) -> bytes:
    """Contents of a kernel's `.nv.info.NAME`: its parameters, last first, as ptxas writes them."""
    parts = [
        struct.pack("<BBHIHHI", 4, 0x17, 12, 0, i, offset, size << 18 | 0x1F000)
        for i, (offset, size) in reversed(list(enumerate(zip(kernel.offsets, kernel.params, strict=True))))
    ]
    parts.append(struct.pack("<BBH", 3, 0x19, kernel.param_bytes))
    if kernel.max_threads:
        parts.append(struct.pack("<BBHIII", 4, 0x05, 12, kernel.max_threads, 1, 1))
    return b"".join(parts)


def _common_info(kernels: Sequence[Kernel]) -> bytes:
    """Contents of `.nv.info`: registers and stack frames by the kernels' symbols, which are the first ones."""
    return b"".join(
        struct.pack("<BBHII", 4, 0x2F, 8, i, kernel.registers)
        + struct.pack("<BBHII", 4, 0x11, 8, i, kernel.local_bytes)
        + struct.pack("<BBHII", 4, 0x12, 8, i, kernel.local_bytes)
        for i, kernel in enumerate(kernels, 1)
    )


def cubin(kernels: Sequence[Kernel], global_variables: Sequence[Global] = (), arch: int = 90) -> bytes:
    """Makes a cubin for sm_`arch` with these kernels and global variables."""
    elf, strings, symbols = Elf(), bytearray(b"\0"), bytearray(24)

    def symbol(name: str, info: int, other: int, section: int, size: int) -> None:
        symbols.extend(struct.pack("<IBBHQQ", len(strings), info, other, section, 0, size))
        strings.extend(name.encode() + b"\0")

    for kernel in kernels:
        section = elf.add(f".text.{kernel.name}", 1, bytes(128))
        elf.add(f".nv.info.{kernel.name}", 0x70000000, _info(kernel))
        if kernel.shared_bytes:
            system = 1024 if arch >= 90 else 0  # ptxas puts these bytes before the kernel's own
            elf.add(f".nv.shared.{kernel.name}", 8, b"", size=system + kernel.shared_bytes)
        symbol(kernel.name, 0x12, 0x10, section, 128)
    for variable in global_variables:
        if variable.init:
            section = elf.add(".nv.global.init", 1, variable.init.ljust(variable.size, b"\0"))
        else:
            section = elf.add(".nv.global", 8, b"", size=variable.size)
        symbol(variable.name, 0x11, 0, section, variable.size)
    elf.add(".nv.info", 0x70000000, _common_info(kernels))
    elf.add(".strtab", 3, bytes(strings))
    elf.add(".symtab", 2, bytes(symbols), link=len(elf.sections), info=1)
    return elf.image(0x6000004 | arch << 8)


def all_kernels(arch: int = 90) -> bytes:
    """Makes a cubin with every kernel of the fake driver."""
    return cubin([Kernel(name, params) for name, params in KERNELS.items()], arch=arch)


LINK_BYTES: Final = 64
"""sizeof(struct vgc_cuda_link)"""
TEXTS: Final = b"_Z7watchedjjPKc\0listens\0a line\n\0"
"""The kernels' names, as the compile program writes them, and a text of the program behind them."""
LINE_AT: Final = TEXTS.index(b"a line")


CLOCK: Final = Kernel("__vgc_clock", (POINTER,))
"""Kernel that reads the GPU's timer."""


def hooked(arch: int = 90, *, clock: Kernel | None = CLOCK) -> bytes:
    """Makes a cubin like `all_kernels`, of a program with the control system's hooks. With a different `clock`, or
    None, it is like a guest's own cubin.
    """
    variables = [Global("__vgc_control", LINK_BYTES), Global("__vgc_kernels", len(TEXTS), TEXTS)]
    kernels = [Kernel(name, params) for name, params in KERNELS.items()]
    return cubin([*kernels, *([] if clock is None else [clock])], variables, arch=arch)
