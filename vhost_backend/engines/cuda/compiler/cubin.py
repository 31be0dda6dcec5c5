"""Checks of a cubin: architecture, linkage, contents."""

from __future__ import annotations

from ...containers import elf
from .errors import CompileError

_EM_CUDA = 190
_ET_REL = 1
_ABI_WITH_WIDE_FLAGS = 8  # CUDA 13
_SHF_EXECINSTR = 4
_VARIABLES = ("nv.global", "nv.global.init", "nv.constant3")
_NOTHING = "the source defines no kernel (a __global__ function; templates need an instantiation)"


class _Header:
    """Fields of the ELF header that are used here."""

    def __init__(self, image: bytes) -> None:
        if len(image) < elf.HEADER.size:
            raise CompileError(f"the cubin is {len(image)} bytes long, and its header alone takes {elf.HEADER.size}")
        fields = elf.HEADER.unpack_from(image)
        ident = fields[0]
        if not ident.startswith(elf.MAGIC) or fields[2] != _EM_CUDA:
            raise CompileError("the image is not a cubin (a 64-bit ELF file for CUDA)")
        self.is_relocatable = fields[1] == _ET_REL
        self.flags: int = fields[7]
        self.abi: int = ident[8]


def architecture(image: bytes) -> int:
    """Compute capability of a cubin's code: 90 for ``sm_90``.

    :raise CompileError: the image is not a cubin.
    """
    header = _Header(image)
    return header.flags >> 8 & 0xFFFF if header.abi >= _ABI_WITH_WIDE_FLAGS else header.flags & 0xFF


def runs_on(made_for: int, device: int) -> bool:
    """True if a device runs code of an architecture: same major version, same or later minor version."""
    return made_for // 10 == device // 10 and made_for <= device


def _check_made_for(image: bytes, arch: str) -> None:
    made_for = architecture(image)
    if not runs_on(made_for, number_of(arch)):
        raise CompileError(f"the cubin is made for sm_{made_for}, and this device is {arch}")


def check_runs_on(image: bytes, arch: str) -> None:
    """Checks that a device of `arch` can load a cubin.

    :raise CompileError: it cannot.
    """
    if _Header(image).is_relocatable:
        raise CompileError("the cubin is not linked (nvcc -rdc=true or -dc makes such); link it with nvcc -dlink")
    _check_made_for(image, arch)


def check_links(image: bytes, arch: str) -> None:
    """Checks that a cubin can be linked with others for a device of `arch`.

    :raise CompileError: it cannot.
    """
    if not _Header(image).is_relocatable:
        raise CompileError("the cubin is linked already (allowed: what nvcc -rdc=true or -dc makes)")
    _check_made_for(image, arch)


def check_content(image: bytes) -> None:
    """Checks that a cubin has code or variables.

    :raise CompileError: it has neither.
    """
    for section in elf.sections(image, "cubin"):
        if section.flags & _SHF_EXECINSTR or section.name.removeprefix(".") in _VARIABLES:
            return
    raise CompileError(_NOTHING)


def number_of(arch: str) -> int:
    """Number of an architecture: 90 for ``sm_90``, ``sm_90a`` and ``compute_90``."""
    digits = "".join(character for character in arch.partition("_")[2] if character.isdigit())
    if not digits:
        raise CompileError(f"'{arch}' is not an architecture (allowed: sm_ and a number)")
    return int(digits)
