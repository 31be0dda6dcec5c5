"""Programs of several sources: compiles each to relocatable code, and links them.

Sources are compiled as ``unit0.cu``, ``unit1.cu`` and so on: nvcc makes names of internal functions and variables of that, by which
`vhost_backend.engines.cuda.names` knows the source. Errors have the guest's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...containers.units import split
from . import cubin, tools, tools_nvcc
from .errors import CompileError

if TYPE_CHECKING:
    from .main import CommandLine

_LAUNCHING = b"__cudaCDP"
"""Begin of the names of the device runtime's functions in PTX."""


def linked(line: CommandLine, words: list[str]) -> tuple[bytes, list[bytes], list[str]]:
    """Cubin of the program that the command line names, PTX of each source, and the sources' names.

    :param words: further options for nvcc.
    :raise CompileError: the program is malformed, or a source or its options are wrong.
    """
    units = split(line.source())
    if line.guest_options().name_expressions:
        raise CompileError("--name-expression is for the program (allowed: for the unit that has the template)")
    arch = line["arch"]
    texts, files = [], []
    for number, unit in enumerate(units):
        guest = line.guest_options(*unit.options)
        name = f"unit{number}.cu"
        line.guest_dirs = []
        source = f'#line 1 "{unit.name}"\n'.encode() + line.prepared(unit.text)
        tools.write(name, source)
        arch = guest.refined(arch)
        nvcc = tools_nvcc.Nvcc(line, arch)
        image, text = nvcc.cubin(guest, source, name, ["-rdc=true", *words])
        tools.write(f"unit{number}.o.cubin", image)
        files.append(f"unit{number}.o.cubin")
        texts.append(text)
    if any(_LAUNCHING in text for text in texts):
        files.append(_device_runtime(line))
    image = tools_nvcc.link(line["nvlink"], arch, files, [unit.name for unit in units])
    cubin.check_content(image)
    return image, texts, [unit.name for unit in units]


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
