"""Compilation of CUDA source with NVRTC, NVIDIA's compiler library.

Functions without an execution space count as device functions (``-default-device``): a source with helpers, or with
host functions that call no functions of the host, compiles as for the CPU engine. NVRTC drops functions that no kernel
needs, and keeps every kernel that is not a template, ``static`` or not.
"""

from __future__ import annotations

import ctypes
import os

from .errors import CompileError, ToolError
from .options import GuestOptions

_PRELUDE = "vgc_prelude.h"
_COMPILATION_FAILED = 6
_HINT = "vgc-cudacc: note: launches (<<<>>>) and other host code need nvcc: see the option --use-nvcc\n"
_ALWAYS = (
    "-default-device",
    f"--pre-include={_PRELUDE}",
    # 177: NVRTC takes static kernels for unused. 47: the CUDA C++ library redefines NAN and INFINITY.
    "--diag-suppress=177,47",
    # Otherwise cooperative_groups.h includes half of the C++ library, which takes a second.
    "-D_CG_LIMIT_INCLUDED_DEPENDENCIES",
)


class Nvrtc:
    """The library, and the only program that this process compiles.

    :raise CompileError: the library cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        try:
            # NVRTC opens its second library by name, and wheels of CUDA 13.0 do not set a search path for it.
            folder = os.path.dirname(path)  # noqa: PTH120  pathlib takes 8 ms to load
            for name in os.listdir(folder):  # noqa: PTH208
                if name.startswith("libnvrtc-builtins.so."):
                    ctypes.CDLL(f"{folder}/{name}")
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise CompileError(f"NVRTC cannot be loaded: {error}") from error
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        self._program = ctypes.c_void_p()

    def describe(self) -> str:
        """Version and architectures, such as ``13.0 75 80 90``."""
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._check("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self._check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        supported = (ctypes.c_int * count.value)()
        self._check("nvrtcGetSupportedArchs", supported)
        return f"{major.value}.{minor.value} {' '.join(str(number) for number in supported)}"

    def compile(self, source: bytes, name: str, arguments: list[str], names: list[str]) -> tuple[bytes, bytes, str]:
        """Compiles a source; returns the cubin, its PTX, and the log.

        :raise ToolError: the source has errors; the text is the log.
        :raise CompileError: NVRTC cannot be used.
        """
        log = self._compile(source, name, arguments, names)
        return self._fetch("nvrtcGetCUBIN"), self._fetch("nvrtcGetPTX"), log

    def ptx(self, source: bytes, name: str, arguments: list[str], names: list[str]) -> tuple[bytes, str]:
        """Compiles a source for a virtual architecture; returns the PTX and the log.

        :raise ToolError: the source has errors; the text is the log.
        :raise CompileError: NVRTC cannot be used.
        """
        log = self._compile(source, name, arguments, names)
        return self._fetch("nvrtcGetPTX"), log

    def _compile(self, source: bytes, name: str, arguments: list[str], names: list[str]) -> str:
        if b"\0" in source:
            line = source[: source.index(b"\0")].count(b"\n") + 1
            raise CompileError(f"{name}({line}): error: a zero byte in the source")
        self._program = ctypes.c_void_p()
        program = ctypes.byref(self._program)
        self._check("nvrtcCreateProgram", program, source, name.encode(), 0, None, None)
        for expression in names:
            self._check("nvrtcAddNameExpression", self._program, expression.encode())
        words = [argument.encode() for argument in arguments]
        array = (ctypes.c_char_p * len(words))(*words)
        result = self._library.nvrtcCompileProgram(self._program, len(words), array)
        log = self._fetch("nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
        if result == _COMPILATION_FAILED:
            raise ToolError(log + (_HINT if b"<<<" in source else ""))
        if result != 0:
            raise CompileError(f"{log}NVRTC: {self._library.nvrtcGetErrorString(result).decode()}")
        return log

    def lowered(self, names: list[str]) -> str:
        """Lines for the log that say what the linker calls the program's instances."""
        lines = []
        for index, expression in enumerate(names):
            name = ctypes.c_char_p()
            self._check("nvrtcGetLoweredName", self._program, expression.encode(), ctypes.byref(name))
            lines.append(f"vgc: lowered name {index}: {(name.value or b'').decode()}\n")
        return "".join(lines)

    def _fetch(self, function: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(f"{function}Size", self._program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(function, self._program, buffer)
        return buffer.raw

    def _check(self, function: str, *arguments: object) -> None:
        result = getattr(self._library, function)(*arguments)
        if result != 0:
            raise CompileError(f"{function}: {self._library.nvrtcGetErrorString(result).decode()}")


def arguments(options: GuestOptions, arch: str, include_dirs: list[str], hooks: str = "") -> list[str]:
    """NVRTC's options for a guest's. `hooks`: header of the control system's hooks, for PTX that will get them."""
    macros = [f"-{letter}{text}" for letter, text in options.macros]
    includes = [f"-I{directory}" for directory in include_dirs]
    common = options.common
    if hooks:  # the assembler gets its own options
        arch = arch.replace("sm_", "compute_", 1)
        includes.append(f"--pre-include={hooks}")
        common = [word for word in common if not word.startswith(("--maxrregcount", "--ptxas-options"))]
    return [f"-arch={arch}", f"-std={options.standard}", *_ALWAYS, *macros, *includes, *common]
