"""Runs ptxas and nvcc."""

from __future__ import annotations

import os

from .errors import CompileError, ToolError
from .options import GuestOptions

_WRAPPER = "names.cu"
_MACROS = "vgc-macros.h"
_PTX = "source.ptx"
_BUILT = "vgc.cubin"


def run(command: list[str]) -> None:
    """Runs a program whose output goes to the log.

    :raise ToolError: the program failed, and has logged the reason.
    """
    try:
        pid = os.posix_spawn(command[0], command, os.environ)
    except OSError as error:
        raise CompileError(f"cannot run {command[0]}: {error.strerror}") from error
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        raise CompileError(f"{command[0]} was killed by signal {-code}")
    if code > 0:
        raise ToolError


def ptxas(program: str, arch: str, text: bytes, options: GuestOptions) -> bytes:
    """Assembles PTX text to a cubin."""
    write(_PTX, text.rstrip(b"\0"))
    known = ("--maxrregcount", "--device-debug", "--generate-line-info", "--fmad=")
    words = [word for word in options.common if word.startswith(known)]
    words += [word.partition("=")[2] for word in options.common if word.startswith("--ptxas-options=")]
    run([program, f"-arch={arch}{_variant(text, arch)}", *words, _PTX, "-o", _BUILT])
    return read(_BUILT)


def _variant(text: bytes, arch: str) -> str:
    """Suffix of the architecture that PTX for ``sm_90a`` or ``sm_100f`` needs."""
    target = text.partition(b".target")[2].lstrip()[:16].split(b",")[0].split()
    if target and target[0] == f"{arch}a".encode():
        return "a"
    return "f" if target and target[0].startswith(b"sm_") and target[0].endswith(b"f") else ""


class Nvcc:
    """Compiler nvcc, with the C++ compiler that it preprocesses with.

    Definitions go through a file, because nvcc passes its arguments to a shell.
    """

    def __init__(self, program: str, host_compiler: str, arch: str, later_dirs: list[str]) -> None:
        """Prepares a command. `later_dirs`: folders of headers that nvcc's own tree does not have."""
        self._program = program
        self._always = [
            f"-arch={arch}",
            f"-ccbin={host_compiler}",
            "--diag-suppress=177",
            "-Wno-deprecated-gpu-targets",
            *(f"-isystem={folder}" for folder in later_dirs),
        ]

    def cubin(
        self, options: GuestOptions, source: str, include_dirs: list[str], words: list[str]
    ) -> tuple[bytes, bytes]:
        """Compiles CUDA source; returns the cubin and its PTX. `words`: further options for nvcc."""
        includes = [f"-I{folder}" for folder in include_dirs]
        compiled = self._run(["-cubin", "--keep", *includes, *words], options, source, [_MACROS])
        return read(_BUILT), read(compiled.removesuffix(".cu") + ".ptx")

    def ptx(self, options: GuestOptions, source: str, include_dirs: list[str], hooks: str, macros: list[str]) -> bytes:
        """Compiles CUDA source to PTX that will get hooks, with the control system's header and its `macros`."""
        includes = [f"-I{folder}" for folder in include_dirs]
        self._run(["-ptx", *includes, *macros], options, source, [hooks, _MACROS])
        return read(_BUILT)

    def _run(self, first: list[str], options: GuestOptions, source: str, headers: list[str]) -> str:
        write(_MACROS, "".join(_directive(*macro) for macro in options.macros).encode())
        command = [self._program, *first, *self._always, f"-std={options.standard}"]
        command += [f"--pre-include={header}" for header in headers]
        compiled = _with_instantiations(options.name_expressions, source)
        run([*command, *options.common, *options.nvcc, compiled, "-o", _BUILT])
        return compiled


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
    lines += [f"static const auto __vgc_name_expression_{index} = &{name};" for index, name in enumerate(names)]
    write(_WRAPPER, "\n".join([*lines, ""]).encode())
    return _WRAPPER


def read(path: str) -> bytes:
    """Reads a whole file."""
    with open(path, "rb") as file:
        return file.read()


def write(path: str, content: bytes) -> None:
    """Makes a new file and replaces an existing one, as the guest's source cannot be written to."""
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108  pathlib takes 5 ms to load
    with open(path, "wb") as file:
        file.write(content)
