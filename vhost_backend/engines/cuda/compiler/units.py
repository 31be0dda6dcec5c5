"""Programs of several units: compiles each to relocatable code, and links them.

Sources are compiled as ``unit0.cu``, ``unit1.cu`` and so on: nvcc makes names of internal functions and variables of that, by which
`vhost_backend.engines.cuda.names` knows the source. Errors have the guest's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...containers import elf, fatbin
from ...containers.units import Unit, split
from . import cubin, ptx, tools, tools_nvcc
from . import fatbin as choice
from .errors import CompileError

if TYPE_CHECKING:
    from .main import CommandLine
    from .options import GuestOptions

_LAUNCHING = b"__cudaCDP"
"""Begin of the names of the device runtime's functions in PTX."""


class Program(NamedTuple):
    """A program of units."""

    image: bytes
    texts: list[bytes]
    """PTX of each unit that has it."""
    names: list[str]
    has_source: bool
    """Whether a unit was compiled from CUDA C."""


def linked(line: CommandLine, words: list[str]) -> Program:
    """Cubin of the program that the command line names. Units are CUDA C, PTX, relocatable cubins, and fat binaries with
    these; their first bytes tell which.

    :param words: further options for nvcc.
    :raise CompileError: the program is malformed, or a unit or its options are wrong.
    """
    units = split(line.source())
    if line.guest_options().name_expressions:
        raise CompileError("--name-expression is for the program (allowed: for the unit that has the template)")
    arch = line["arch"]
    texts, files, has_source = [], [], False
    for number, unit in enumerate(units):
        guest = line.guest_options(*unit.options)
        arch = guest.refined(arch)
        if _is_source(unit):
            name = f"unit{number}.cu"
            source = _prepared(line, unit, name)
            image, text = tools_nvcc.Nvcc(line, arch).cubin(guest, source, name, ["-rdc=true", *words])
            has_source = True
        else:
            image, text = _ready(line, unit, guest, arch)
        tools.write(f"unit{number}.o.cubin", image)
        files.append(f"unit{number}.o.cubin")
        texts.append(text)
    if any(_LAUNCHING in text for text in texts):
        files.append(_device_runtime(line))
    names = [unit.name for unit in units]
    image = tools_nvcc.link(line["nvlink"], arch, files, names)
    cubin.check_content(image)
    return Program(image, texts, names, has_source)


def _is_source(unit: Unit) -> bool:
    return not (unit.text.startswith((fatbin.START, elf.MAGIC)) or ptx.is_module(unit.text))


def _prepared(line: CommandLine, unit: Unit, name: str) -> bytes:
    """CUDA C that is compiled for a unit, which also is in the file `name`."""
    line.guest_dirs = []
    source = f'#line 1 "{unit.name}"\n'.encode() + line.prepared(unit.text)
    tools.write(name, source)
    return source


def _ready(line: CommandLine, unit: Unit, guest: GuestOptions, arch: str) -> tuple[bytes, bytes]:
    """Relocatable cubin of what the guest's own compiler has made, and its PTX, if it is that.

    :raise CompileError: the VM's programs are compiled from source, or the unit cannot be linked for `arch`.
    """
    if not line["binaries"]:
        raise CompileError(
            f"unit '{unit.name}' is no CUDA C, and this VM's programs are compiled from source. To allow it, the host's"
            " configuration needs 'binaries: true' among the options of the VM's engine"
        )
    try:
        is_ptx, code = _best(unit.text, arch)
        if not is_ptx:
            cubin.check_links(code, arch)
            return code, b""
    except CompileError as error:
        raise CompileError(f"unit '{unit.name}': {error}") from error
    return tools.ptxas(line["ptxas"], arch, code, guest, "--compile-only"), code


def _best(code: bytes, arch: str) -> tuple[bool, bytes]:
    """Code for `arch`: True if it is PTX, and its bytes."""
    return choice.take(code, arch) if code.startswith(fatbin.START) else (not code.startswith(elf.MAGIC), code)


def _device_runtime(line: CommandLine) -> str:
    """Library by which kernels launch kernels and ask for the device.

    :raise CompileError: the host lacks it.
    """
    if not line["device-runtime"]:
        raise CompileError(
            "a kernel launches kernels or asks for the device, which needs libcudadevrt.a, and this host's toolkit"
            " lacks it: pip install nvidia-cuda-runtime"
        )
    return line["device-runtime"]
