"""Real cubins for tests: NVRTC of the wheels makes them, without a GPU or a driver."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
from typing import Any, Final

import pytest

ARCHITECTURES: Final = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@functools.cache
def compiled(source: str, arch: str = "sm_90") -> bytes:
    """The cubin of a source; skips the test where there is no NVRTC."""
    nvrtc: Any = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    _load_builtins()
    try:
        program = _ok(nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], []))
    except RuntimeError as error:  # how cuda-bindings says that the library is missing
        pytest.skip(f"NVRTC is not installed: {error}")
    status, *_ = nvrtc.nvrtcCompileProgram(program, 1, [f"-arch={arch}".encode()])
    assert int(status) == 0, _log(nvrtc, program)
    image: bytes = b" " * _ok(nvrtc.nvrtcGetCUBINSize(program))
    _ok(nvrtc.nvrtcGetCUBIN(program, image))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    return image


def _load_builtins() -> None:
    """NVRTC looks for them beside itself, which the sanitizers' runtime keeps it from."""
    for package in importlib.metadata.distributions(name="nvidia-cuda-nvrtc"):
        for path in package.files or ():
            if path.name.startswith("libnvrtc-builtins.so"):
                ctypes.CDLL(str(path.locate()))


def _log(nvrtc: Any, program: Any) -> str:
    """Not for an empty log: the bindings write into what they are given, and bytes of length 1 are Python's own."""
    log: bytes = b" " * _ok(nvrtc.nvrtcGetProgramLogSize(program))
    _ok(nvrtc.nvrtcGetProgramLog(program, log))
    return log.decode()


def _ok(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None
