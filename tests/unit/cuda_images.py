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
    except RuntimeError as error:  # the error of cuda-bindings for a missing library
        pytest.skip(f"NVRTC is not installed: {error}")
    status, *_ = nvrtc.nvrtcCompileProgram(program, 1, [f"-arch={arch}".encode()])
    assert int(status) == 0, _log(nvrtc, program)
    image: bytes = b" " * _ok(nvrtc.nvrtcGetCUBINSize(program))
    _ok(nvrtc.nvrtcGetCUBIN(program, image))
    _ok(nvrtc.nvrtcDestroyProgram(program))
    return image


def _load_builtins() -> None:
    """Loads NVRTC's builtins: under the sanitizers' runtime, NVRTC does not find them beside itself."""
    for package in importlib.metadata.distributions(name="nvidia-cuda-nvrtc"):
        for path in package.files or ():
            if path.name.startswith("libnvrtc-builtins.so"):
                ctypes.CDLL(str(path.locate()))


def _log(nvrtc: Any, program: Any) -> str:
    """The compiler's log. An empty one is not fetched: bindings would write into bytes of length 1, shared by Python."""
    log: bytes = b" " * _ok(nvrtc.nvrtcGetProgramLogSize(program))
    _ok(nvrtc.nvrtcGetProgramLog(program, log))
    return log.decode()


def _ok(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None
