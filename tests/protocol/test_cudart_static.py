"""`mynvcc -cudart static`, and several CUDA runtimes in one process."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cuda_driver import build

TOOLKIT: Final = REPOSITORY / "guest_driver" / "cuda" / "build" / "toolkit"

LIBRARY: Final = """
__global__ void add(int *x) { ++*x; }
extern "C" cudaError_t add_one(int *x) { add<<<1, 1>>>(x); return cudaGetLastError(); }
"""
MAIN: Final = r"""
#include <cstdio>
#include <dlfcn.h>
__global__ void twice(int *x) { *x *= 2; }
int main(int argc, char **argv) {
    int *device, value = 20;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    auto add_one = (cudaError_t (*)(int *))dlsym(library != nullptr ? library : RTLD_DEFAULT, "add_one");
    cudaMalloc(&device, sizeof(value));
    cudaMemcpy(device, &value, sizeof(value), cudaMemcpyHostToDevice);
    twice<<<1, 1>>>(device);
    cudaError_t error = add_one != nullptr ? add_one(device) : cudaGetLastError();
    cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost);
    printf("%s %d\n", cudaGetErrorName(error), value);
}
"""
OPENS: Final = r"""
#include <cstdio>
#include <dlfcn.h>
int main(int, char **argv) {
    int count = 0;
    if (dlopen(argv[1], RTLD_NOW) == nullptr) puts(dlerror());
    cudaGetDeviceCount(&count);
    cudaGetDeviceCount(&count);
    printf("%d\n", count);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    for name, text in {"add": LIBRARY, "main": MAIN, "opens": OPENS}.items():
        (folder / f"{name}.cu").write_text(text)
    mynvcc: list[str | Path] = [TOOLKIT / "bin" / "mynvcc"]
    linked = ["-L.", "-Xlinker", "--no-as-needed", "-ladd", "-Xlinker", f"-rpath={folder}"]
    for words in (
        ["-shared", "-Xcompiler", "-fPIC", "-o", "libadd.so", "add.cu"],
        ["-cudart", "static", "-o", "alone", "main.cu"],
        ["-cudart", "static", "-o", "beside", "main.cu", *linked],
        ["-o", "opens", "opens.cu"],
    ):
        subprocess.run([*mynvcc, *words], cwd=folder, check=True, timeout=HANGS_AFTER_S)
    return folder


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_a_static_program_needs_no_libcudart(folder: Path, host: GuestHost) -> None:
    needed = subprocess.run(["readelf", "-d", folder / "alone"], check=True, capture_output=True, text=True).stdout
    assert "libcudart" not in needed
    assert host.run(folder / "alone").stdout == "cudaSuccess 40\n"


def test_a_library_that_it_is_linked_with_uses_the_program_s_copy(folder: Path, host: GuestHost) -> None:
    done = host.run(folder / "beside")
    assert (done.stdout, done.stderr) == ("cudaSuccess 41\n", "")


def test_a_library_that_it_opens_uses_the_program_s_copy(folder: Path, host: GuestHost) -> None:
    done = host.run(folder / "alone", folder / "libadd.so")
    assert (done.stdout, done.stderr) == ("cudaSuccess 41\n", "")


def nvidias_libcudart() -> Path:
    found = importlib.util.find_spec("nvidia")
    for place in found.submodule_search_locations or () if found is not None else ():
        for path in Path(place).glob("cu13/lib/libcudart.so.13"):
            return path
    pytest.skip("NVIDIA's libcudart is not installed (wheel nvidia-cuda-runtime)")


def test_nvidia_s_libcudart_in_the_same_process_is_named_once(folder: Path, host: GuestHost) -> None:
    other = nvidias_libcudart()
    done = host.run(folder / "opens", other)
    assert done.stdout == "1\n"
    assert done.stderr.count(f"this process has also loaded NVIDIA's {other}") == 1


def test_another_version_of_ours_is_no_stranger(folder: Path, host: GuestHost) -> None:
    done = host.run(folder / "opens", TOOLKIT / "lib64" / "libcudart.so.13")
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_the_driver_api_uses_the_program_s_copy(tmp_path: Path, host: GuestHost) -> None:
    done = host.run(build("driver_runtime", tmp_path, "-l:libcudart_static.a", "-ldl", "-lm"))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stdout + done.stderr
