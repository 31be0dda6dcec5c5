"""A library with CUDA 12's runtime inside, beside CUDA 13's: one runtime serves both, each as its programs call it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cudart_static import TOOLKIT

LIBRARIES: Final = TOOLKIT / "lib64"

PART: Final = r"""
#include <cuda_runtime.h>
extern "C" int part(void **memory)
{
    struct { cudaDeviceProp properties; unsigned long long behind; } device = {{}, 7};
    struct { cudaPointerAttributes attributes; unsigned long long behind; } pointer = {{}, 7};
    int version = 0;
    if (cudaRuntimeGetVersion(&version) != cudaSuccess || version / 1000 != 12)
        return 1;
    if (cudaGetDeviceProperties(&device.properties, 0) != cudaSuccess || device.behind != 7)
        return 2;
    if (device.properties.multiProcessorCount != 2 || device.properties.maxThreadsPerBlock != 1024)
        return 3;
    if (*memory == nullptr && cudaMalloc(memory, 64) != cudaSuccess)
        return 4;
    if (cudaPointerGetAttributes(&pointer.attributes, *memory) != cudaSuccess || pointer.behind != 7)
        return 5;
    return pointer.attributes.type == cudaMemoryTypeDevice && pointer.attributes.devicePointer == *memory ? 0 : 6;
}
"""

PROGRAM: Final = """
import ctypes, os, sys
memory = ctypes.c_void_p()
results = [ctypes.CDLL(path).part(ctypes.byref(memory)) for path in sys.argv[1:]]
own = ctypes.CDLL("libcudart.so.13", os.RTLD_NOLOAD)
version = ctypes.c_int()
own.cudaRuntimeGetVersion(ctypes.byref(version))
print(*results, version.value, own.cudaFree(memory))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def build(folder: Path, name: str, runtime: str) -> Path:
    """A shared library as g++ links an extension of Python's."""
    library = folder / f"{name}.so"
    (folder / "part.cpp").write_text(PART)
    words = ["g++", "-shared", "-fPIC", f"-I{TOOLKIT / 'include'}", "part.cpp", "-o", str(library), f"-L{LIBRARIES}"]
    subprocess.run([*words, runtime, "-pthread", "-ldl"], cwd=folder, check=True, timeout=HANGS_AFTER_S)
    return library


@pytest.mark.parametrize(
    "runtimes",
    [("-l:libcudart_static.a",), ("-l:libcudart.so.12",), ("-l:libcudart_static.a", "-l:libcudart.so.12")],
    ids=["static", "shared", "both"],
)
def test_libraries_for_cuda_12_use_the_runtime_of_a_process_for_cuda_13(
    host: GuestHost, tmp_path: Path, runtimes: tuple[str, ...]
) -> None:
    """Memory that one has got is the other's, too, and structs have CUDA 12's size."""
    libraries = [build(tmp_path, f"part{i}", runtime) for i, runtime in enumerate(runtimes)]
    settings = [f"LD_PRELOAD={LIBRARIES}/libcudart.so.13", f"LD_LIBRARY_PATH={LIBRARIES}"]
    done = host.run("env", *settings, "python3", "-c", PROGRAM, *libraries)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["0"] * len(runtimes) + ["13000", "0"]
    assert not done.stderr
