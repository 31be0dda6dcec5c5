"""Runs nvcc and nvlink."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from . import tools
from .errors import ToolError
from .options import GuestOptions

if TYPE_CHECKING:
    from .main import CommandLine

_WRAPPER = "names.cu"
_MACROS = "vgc-macros.h"
_BUILT = "vgc.cubin"
_LINK_LOG = "link.log"
_THRUST = "vgc_thrust.h"
"""Header for sources written for an older release of Thrust."""
_CCCL = re.compile(rb"#[ \t]*include[ \t]*<(?:thrust|cub|cuda/std|cuda)/")
_WITHOUT_NAMESPACES = (
    *("CUB_DISABLE_NAMESPACE_MAGIC", "CUB_IGNORE_NAMESPACE_MAGIC_ERROR"),
    *("THRUST_DISABLE_ABI_NAMESPACE", "THRUST_IGNORE_ABI_NAMESPACE_ERROR"),
)
"""Macros that keep the release and the architecture out of the names of CUB and Thrust: a guest does not know the GPU."""
_OLD = ("c++03", "c++11", "c++14")
_CCCL_STANDARD = "c++17"
"""Oldest standard that Thrust and CUB of CUDA 13 compile with."""


class Nvcc:
    """Compiler nvcc, with the C++ compiler that it preprocesses with.

    Definitions go through a file, because nvcc passes its arguments to a shell.
    """

    def __init__(self, line: CommandLine, arch: str) -> None:
        """Prepares a command for an architecture."""
        self._program = line["nvcc"]
        self._arch = arch
        self._always = [
            f"-arch={arch}",
            f"-ccbin={line['host-compiler']}",
            "--diag-suppress=177",
            "-Wno-deprecated-gpu-targets",
            "-allow-unsupported-compiler",  # which is asked for no code
            "--extended-lambda",  # this and the next, which clang allows without an option, and so does mynvcc
            "--expt-relaxed-constexpr",
            *(f"-D{macro}" for macro in _WITHOUT_NAMESPACES),
            *(f"-I{folder}" for folder in [*line.guest_dirs, *line.nvcc_dirs]),
            *(f"-isystem={folder}" for folder in line.later_dirs),
        ]

    def cubin(self, options: GuestOptions, source: bytes, name: str, words: list[str]) -> tuple[bytes, bytes]:
        """Compiles CUDA source in a file; returns the cubin and its PTX. `words`: further options for nvcc."""
        compiled = self._run(["-cubin", "--keep", *words], options, source, name, [_MACROS])
        return tools.read(_BUILT), tools.read(compiled.removesuffix(".cu") + ".ptx")

    def ptx(self, options: GuestOptions, source: bytes, name: str, hooks: str, macros: list[str]) -> bytes:
        """Compiles CUDA source to PTX that will get hooks, with the control system's header and its `macros`."""
        self._run(["-ptx", *macros], options, source, name, [hooks, _MACROS])
        return tools.read(_BUILT)

    def _run(self, first: list[str], options: GuestOptions, source: bytes, name: str, headers: list[str]) -> str:
        """Compiles; returns the name of the file that was compiled."""
        tools.write(_MACROS, "".join(_directive(*macro) for macro in options.macros).encode())
        command = [self._program, *first, *self._always, f"-std={_standard(options.standard, source)}"]
        thrust = [_THRUST] if b"thrust" in source else []
        command += [f"--pre-include={header}" for header in [*headers, *thrust]]
        compiled = _with_instantiations(options.name_expressions, name)
        further = [option for option in options.nvcc if option not in self._always]
        tools.run([*command, *options.common, *further, compiled, "-o", _BUILT])
        return compiled


def link(program: str, arch: str, files: list[str], names: list[str]) -> bytes:
    """Links relocatable cubins in `files`, and libraries behind them, to a cubin. `names`: those of the cubins' sources,
    for errors.

    :raise ToolError: they do not fit together; the text is the log.
    """
    try:
        tools.run([program, f"-arch={arch}", *files, "-o", _BUILT], _LINK_LOG)
    except ToolError as error:
        log = tools.read(_LINK_LOG).decode(errors="replace")
        for file, name in zip(files, names, strict=False):  # a library may follow
            log = log.replace(f"'{file}'", f"'{name}'")
        raise ToolError(log) from error
    return tools.read(_BUILT)


def _standard(wanted: str, source: bytes) -> str:
    """Language standard to compile with; a newer one than wanted for sources that include Thrust or CUB."""
    if wanted not in _OLD or _CCCL.search(source) is None:
        return wanted
    note = (
        f"vgc-cudacc: note: compiled as {_CCCL_STANDARD}, not {wanted}, which this host's Thrust and CUB do not know\n"
    )
    os.write(1, note.encode())
    return _CCCL_STANDARD


def _directive(letter: str, text: str) -> str:
    if letter == "U":
        return f"#undef {text}\n"
    name, equals, value = text.partition("=")
    return f"#define {name} {value if equals else '1'}\n"


def _with_instantiations(names: list[str], source: str) -> str:
    """File to compile: the source, or a wrapper that also takes the address of each kernel in `names`."""
    if not names:
        return source
    lines = [f'#include "{source}"', '#line 1 "name-expression"']
    lines += [
        f"static const auto __vgc_name_expression_{index} = &{name.lstrip(' &')};" for index, name in enumerate(names)
    ]
    tools.write(_WRAPPER, "\n".join([*lines, ""]).encode())
    return _WRAPPER
