"""Cubin parser, without the driver: architecture, kernels with their parameters, variables, memory needs.

A cubin is an ELF64 file. Sections that matter here:

===================  ==================================================================================================
``.nv.info.KERNEL``  attributes of a kernel: a format byte, an attribute byte, then a 16-bit value or size
``.nv.global``       variables; ``.nv.global.init`` those with initial values, ``.nv.constant3`` those in ``__constant__``
``.symtab``          kernels are functions with the bit STO_CUDA_ENTRY; functions of the driver are undefined symbols
===================  ==================================================================================================

NVIDIA does not document the layout; LLVM has the flags (``llvm/BinaryFormat/ELF.h``), and the tests compare all of it
with nvcc's output for each architecture. Images may come from the guest: nothing in them is trusted.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from vhost_backend.engines.cuda.names import parts

__all__ = ["Cubin", "CubinError", "Hooks", "Kernel", "Variable", "parse"]

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")

_EM_CUDA: Final = 190
_ELF64_LITTLE: Final = b"\x7fELF\x02\x01\x01"
# (EI_OSABI, EI_ABIVERSION) -> shift of the architecture's number in e_flags
_ABIS: Final = {(0x33, 7): 0, (0x41, 8): 8}

_SHT_SYMTAB: Final = 2
_SHT_NOBITS: Final = 8
_SHF_ALLOC: Final = 2
_SHN_UNDEF: Final = 0
_STT_OBJECT: Final = 1
_STT_FUNC: Final = 2
_STO_CUDA_ENTRY: Final = 0x10
_STB_LOCAL: Final = 0

_EIFMT_HVAL: Final = 3
_EIFMT_SVAL: Final = 4
_EIATTR_KPARAM_INFO: Final = 0x17
_EIATTR_CBANK_PARAM_SIZE: Final = 0x19
_EIATTR_KPARAM_INFO_V2: Final = 0x45
_KPARAM_INFO: Final = struct.Struct("<IHHI")
_KPARAM_INFO_V2: Final = struct.Struct("<IHHHH")
_KPARAM_SIZE_SHIFT: Final = 18

_INFO: Final = ".nv.info."
_CONSTANTS: Final = ".nv.constant3"
_VARIABLES: Final = frozenset({".nv.global", ".nv.global.init", _CONSTANTS})
# Constants of the C++ library (std and cuda::, local ones included), of which NVRTC makes hundreds of variables.
_LIBRARY: Final = re.compile(r"_ZN?K?St|_ZN(?:\d+_INTERNAL_\w*?)?4cuda\d|_ZN\d+__(?:cccl|nv)_")
CONTROL_LINK: Final = "__vgc_control"
"""Variable with the link to the control area (struct vgc_cuda_link)."""
KERNEL_NAMES: Final = "__vgc_kernels"
CLOCK_KERNEL: Final = "__vgc_clock"
"""Kernel that is added to programs with hooks: reads the GPU's timer for the engine; guests do not see it."""
_OURS: Final = "__vgc_"
# Sections of memory per block and per thread, which is not loaded with the program.
_NOT_LOADED: Final = (".nv.shared", ".nv.local")
_MAX_NAME: Final = 16384
_MAX_SYMBOLS: Final = 1 << 17
_MAX_LOADED_BYTES: Final = 1 << 48
_NAME_BYTES_PER_BYTE: Final = 2
"""Bound of the total length of names, per byte of the file: names may share their ends, but must not fill memory."""


class CubinError(ValueError):
    """The image is not a cubin, or is damaged."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An entry point."""

    name: str
    """Mangled name."""
    params: tuple[tuple[int, int], ...]
    """Offset and size in bytes of each parameter, in the order of declaration."""
    param_bytes: int
    is_local: bool = field(default=False, compare=False)
    """True if the symbol is: the kernel is ``static``, or internal to its source for another reason."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A ``__device__`` or ``__constant__`` variable."""

    name: str
    size: int
    is_local: bool = field(default=False, compare=False)
    """True if the symbol is, as all variables' are unless the code is relocatable."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Parts of a program that the control system's hooks add to the guest's source (``compiler/hooks.py``)."""

    names_at: int
    """Offset of `KERNEL_NAMES` in `constants`; each name ends with a zero."""
    names_size: int
    constants: bytes
    """Contents of the section of `KERNEL_NAMES`, which has all texts of the program."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """A parsed image."""

    capability: int
    """Architecture of the code: 90 is sm_90."""
    kernels: tuple[Kernel, ...]
    variables: tuple[Variable, ...]
    prints: bool
    """True if a function calls ``printf``."""
    mallocs: bool
    """True if a function uses the heap that the driver gives to kernels."""
    loaded_bytes: int
    """Bytes of device memory for code, constants and variables."""
    constant_bytes: int = 0
    """Bytes of variables in constant memory."""
    hooks: Hooks | None = None
    """None: the program has no hooks, so the control system does not see it."""

    @property
    def arch(self) -> str:
        return f"sm_{self.capability}"

    def runs_on(self, arch: str) -> bool:
        """True if the code runs on `arch`: its own architecture, or a later one of the same major number."""
        major, minor = divmod(int(arch.removeprefix("sm_")), 10)
        return self.capability // 10 == major and self.capability % 10 <= minor


def parse(image: bytes) -> Cubin:
    """Reads a cubin.

    :raise CubinError: the image is not a cubin, or is inconsistent.
    """
    elf = _Elf(image)
    names = {symbol.name for symbol in elf.symbols if symbol.section == _SHN_UNDEF}
    loaded = (
        section.size
        for section in elf.sections
        if section.flags & _SHF_ALLOC and not section.name.startswith(_NOT_LOADED)
    )
    loaded_bytes = sum(loaded)
    if loaded_bytes > _MAX_LOADED_BYTES:
        raise CubinError(f"its sections take {loaded_bytes} bytes of memory; allowed: {_MAX_LOADED_BYTES}")
    return Cubin(
        capability=elf.capability,
        kernels=tuple(_kernels(elf)),
        variables=tuple(_variables(elf)),
        prints="vprintf" in names,
        mallocs=not names.isdisjoint({"malloc", "free"}),
        loaded_bytes=loaded_bytes,
        constant_bytes=sum(section.size for section in elf.sections if section.name == _CONSTANTS),
        hooks=_hooks(elf),
    )


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    binding: int
    other: int
    section: int
    value: int
    size: int


class _Elf:
    """Sections and symbols (functions, variables, undefined ones) of the file, all checked to lie inside the file."""

    def __init__(self, image: bytes) -> None:
        self._image = image
        self.size = len(image)
        self._name_bytes_left = _NAME_BYTES_PER_BYTE * len(image)
        if len(image) < _HEADER.size or not image.startswith(_ELF64_LITTLE):
            raise CubinError("this is not a cubin: it has no 64-bit ELF header")
        ident, _, machine, _, _, _, table, flags, *_, entry_size, count, names = _HEADER.unpack_from(image)
        if machine != _EM_CUDA:
            raise CubinError(f"this is an ELF file, but not a cubin: its machine is {machine}, a cubin's {_EM_CUDA}")
        self.capability = _capability(ident, flags)
        if entry_size != _SECTION.size:
            raise CubinError(f"section headers have {entry_size} bytes; allowed: {_SECTION.size}")
        self.sections = self._read_sections(table, count, names)
        self.symbols = tuple(islice(self._read_symbols(), _MAX_SYMBOLS + 1))
        if len(self.symbols) > _MAX_SYMBOLS:
            raise CubinError(f"it has more than {_MAX_SYMBOLS} functions and variables")

    def content(self, section: _Section) -> bytes:
        if section.kind == _SHT_NOBITS:
            return b""
        return self._bytes(section.offset, section.size, f"section {section.name}")

    def _read_sections(self, table: int, count: int, names: int) -> tuple[_Section, ...]:
        headers = list(_SECTION.iter_unpack(self._bytes(table, count * _SECTION.size, "the section headers")))
        if names >= len(headers):
            raise CubinError(f"section names are in section {names} of {len(headers)}")
        strings = self._bytes(headers[names][4], headers[names][5], "the section names")
        return tuple(
            _Section(self._string(strings, name), kind, flags, offset, size, link)
            for name, kind, flags, _, offset, size, link, *_ in headers
        )

    def _read_symbols(self) -> Iterator[_Symbol]:
        table = next((section for section in self.sections if section.kind == _SHT_SYMTAB), None)
        if table is None:
            return
        if table.link >= len(self.sections):
            raise CubinError(f"the symbols' names are in section {table.link} of {len(self.sections)}")
        raw = self.content(table)
        if len(raw) % _SYMBOL.size:
            raise CubinError(f"the symbol table has {len(raw)} bytes, which is not a multiple of {_SYMBOL.size}")
        strings = self.content(self.sections[table.link])
        for name, info, other, section, value, size in _SYMBOL.iter_unpack(raw):
            if info & 0xF in {_STT_OBJECT, _STT_FUNC} or section == _SHN_UNDEF:
                yield _Symbol(self._string(strings, name), info & 0xF, info >> 4, other, section, value, size)

    def _bytes(self, offset: int, size: int, what: str) -> bytes:
        if offset > len(self._image) or size > len(self._image) - offset:
            raise CubinError(f"{what}: bytes {offset} to {offset + size} of a file of {len(self._image)}")
        return self._image[offset : offset + size]

    def _string(self, strings: bytes, offset: int) -> str:
        end = strings.find(b"\0", offset, offset + _MAX_NAME)
        if end < 0:
            raise CubinError(f"a name at {offset} of {len(strings)} bytes of names has no end")
        self._name_bytes_left -= end - offset
        if self._name_bytes_left < 0:
            raise CubinError(f"its names together are longer than {_NAME_BYTES_PER_BYTE} times the file")
        try:
            return strings[offset:end].decode()
        except UnicodeDecodeError as error:
            raise CubinError(f"a name is not UTF-8: {strings[offset:end]!r:.80}") from error


def _capability(ident: bytes, flags: int) -> int:
    abi = ident[7], ident[8]
    if abi not in _ABIS:
        raise CubinError(f"cubins of ABI {abi[0]:#x} version {abi[1]} are unknown; allowed: 0x33 v7, 0x41 v8")
    capability: int = flags >> _ABIS[abi] & 0xFF
    return capability


def _kernels(elf: _Elf) -> Iterator[Kernel]:
    infos = {section.name: section for section in elf.sections if section.name.startswith(_INFO)}
    room = elf.size
    for symbol in elf.symbols:
        if symbol.kind == _STT_FUNC and symbol.other & _STO_CUDA_ENTRY and symbol.section != _SHN_UNDEF:
            info = infos.pop(_INFO + symbol.name, None)
            if info is None:
                raise CubinError(f"kernel {symbol.name:.200} has no section {_INFO}* of its own")
            room -= info.size
            if room < 0:
                raise CubinError(f"kernel {symbol.name:.200}: its attributes overlap those of other kernels")
            if symbol.name != CLOCK_KERNEL:
                yield _kernel(symbol.name, elf.content(info), is_local=symbol.binding == _STB_LOCAL)


def _kernel(name: str, info: bytes, *, is_local: bool) -> Kernel:
    param_bytes = 0
    params: dict[int, tuple[int, int]] = {}
    for format_, attribute, value in _attributes(name, info):
        if format_ == _EIFMT_HVAL and attribute == _EIATTR_CBANK_PARAM_SIZE:
            param_bytes = int.from_bytes(value, "little")
        elif format_ == _EIFMT_SVAL and attribute in {_EIATTR_KPARAM_INFO, _EIATTR_KPARAM_INFO_V2}:
            ordinal, offset, size = _param(name, attribute, value)
            params[ordinal] = offset, size
    if sorted(params) != list(range(len(params))):
        raise CubinError(f"kernel {name:.200}: parameters {sorted(params)!r:.80} are not numbered consecutively")
    return _checked(Kernel(name, tuple(params[ordinal] for ordinal in range(len(params))), param_bytes, is_local))


def _attributes(kernel: str, info: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Format, attribute and value of each entry."""
    at = 0
    while at < len(info):
        if len(info) - at < 4:
            raise CubinError(f"kernel {kernel:.200}: its attributes end in the middle of an attribute")
        format_, attribute, value = info[at], info[at + 1], info[at + 2 : at + 4]
        at += 4
        if format_ == _EIFMT_SVAL:
            size = int.from_bytes(value, "little")
            value = info[at : at + size]
            at += size
            if len(value) < size:
                raise CubinError(
                    f"kernel {kernel:.200}: attribute {attribute:#x} is longer than the rest of the section"
                )
        yield format_, attribute, value


def _param(kernel: str, attribute: int, value: bytes) -> tuple[int, int, int]:
    """Ordinal, offset and size of a parameter. The second version allows parameters beyond 4 KiB."""
    layout = _KPARAM_INFO if attribute == _EIATTR_KPARAM_INFO else _KPARAM_INFO_V2
    if len(value) != layout.size:
        raise CubinError(f"kernel {kernel:.200}: a parameter is described in {len(value)} bytes, not {layout.size}")
    _, ordinal, offset, size, *_ = layout.unpack(value)
    return ordinal, offset, size >> _KPARAM_SIZE_SHIFT if attribute == _EIATTR_KPARAM_INFO else size


def _checked(kernel: Kernel) -> Kernel:
    """Returns the kernel if its parameters are consecutive and inside its parameter bytes."""
    end = 0
    for number, (offset, size) in enumerate(kernel.params):
        if size == 0 or offset < end or offset + size > kernel.param_bytes:
            raise CubinError(
                f"kernel {kernel.name:.200}: parameter {number} is at {offset} with {size} bytes, outside of"
                f" {end} to {kernel.param_bytes}"
            )
        end = offset + size
    return kernel


def _hooks(elf: _Elf) -> Hooks | None:
    ours = {symbol.name: symbol for symbol in elf.symbols if symbol.name in {CONTROL_LINK, KERNEL_NAMES}}
    names = ours.get(KERNEL_NAMES)
    if len(ours) != 2 or names is None or names.section >= len(elf.sections):
        return None
    constants = elf.content(elf.sections[names.section])
    if names.value > len(constants) or names.size > len(constants) - names.value:
        raise CubinError(f"{KERNEL_NAMES} is outside of its section of {len(constants)} bytes")
    return Hooks(names.value, names.size, constants)


def _variables(elf: _Elf) -> Iterator[Variable]:
    """Variables of the source, without those of libraries, the control system and the compiler (``$str``: not a C++
    name).
    """
    for symbol in elf.symbols:
        if symbol.kind != _STT_OBJECT or symbol.section == _SHN_UNDEF or not symbol.name.isidentifier():
            continue
        if symbol.name.startswith(_OURS):
            continue
        if symbol.section >= len(elf.sections):
            raise CubinError(f"variable {symbol.name:.200} is in section {symbol.section} of {len(elf.sections)}")
        is_in_memory = elf.sections[symbol.section].name in _VARIABLES and symbol.size > 0
        if is_in_memory and not _LIBRARY.match(parts(symbol.name).name):
            yield Variable(symbol.name, symbol.size, is_local=symbol.binding == _STB_LOCAL)
