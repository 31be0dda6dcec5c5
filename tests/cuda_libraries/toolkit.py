"""The guest's CUDA toolkit from Python: libraries by ctypes, arrays of the device by numpy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIB64 = Path(__file__).parents[2] / "guest_driver" / "cuda" / "build" / "toolkit" / "lib64"
RUNTIME = ctypes.CDLL(str(LIB64 / "libcudart.so.12"), mode=ctypes.RTLD_GLOBAL)
TO_DEVICE, TO_HOST = 1, 2


def library(name: str) -> ctypes.CDLL:
    """A library that finds the runtime above by its soname."""
    return ctypes.CDLL(str(LIB64 / name), mode=ctypes.RTLD_GLOBAL)


def check(status: int) -> None:
    assert status == 0, f"status {status}"


class DeviceArray:
    """A copy of an array on the device, freed with its last reference."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.host = np.array(array, order="C")
        self.pointer = ctypes.c_void_p()
        check(RUNTIME.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(max(self.host.nbytes, 1))))
        check(RUNTIME.cudaMemcpy(self.pointer, self._host(), ctypes.c_size_t(self.host.nbytes), TO_DEVICE))

    def __del__(self) -> None:
        RUNTIME.cudaFree(self.pointer)

    def _host(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.host.ctypes.data)

    def get(self) -> NDArray[Any]:
        """Waits for the device and copies back."""
        check(RUNTIME.cudaDeviceSynchronize())
        check(RUNTIME.cudaMemcpy(self._host(), self.pointer, ctypes.c_size_t(self.host.nbytes), TO_HOST))
        return self.host


def main(cases: Mapping[str, Callable[[], None]]) -> None:
    """Runs the case that the command line names."""
    cases[sys.argv[1]]()
