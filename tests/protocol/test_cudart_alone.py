"""Programs with very many kernels: each is compiled alone when it is first used, unless it shares memory with others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host
from tests.protocol.test_cudart_static import TOOLKIT

MANY: Final = 80
"""Kernels, above the number from which on they are compiled one by one."""

HEAD: Final = f"""
#include <cstdio>
#include <utility>
constexpr int MANY = {MANY};
template <int N> __device__ __noinline__ int step(int x) {{ return x * 3 + N; }}
static int run(void (*kernel)(int *), const char *name, int *x)
{{
    kernel<<<1, 1>>>(x);
    cudaError_t error = cudaGetLastError();
    int value = 0;
    cudaMemcpy(&value, x, sizeof(value), cudaMemcpyDeviceToHost);
    return printf("%s %s %d\\n", name, cudaGetErrorName(error), value);
}}
template <int... N> void run_one(int which, int *x, std::integer_sequence<int, N...>)
{{
    void (*kernels[])(int *) = {{add<N>...}};
    run(kernels[which], "add", x);
}}
int main()
{{
    int *x;
    cudaMalloc(&x, sizeof(*x));
    cudaMemset(x, 0, sizeof(*x));
"""
DECLARED: Final = "template <int N> __global__ void add(int *x);\n"

APART: Final = """
__device__ int missing(int);
template <int N> __global__ void add(int *x) { if constexpr (N == 7) *x = missing(N); else *x = step<N>(*x) + 1; }
"""
SHARED: Final = """
static __device__ int counter = 100;
template <int N> __global__ void add(int *x) { *x = counter += N; }
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def build(folder: Path, kernels: str, body: str) -> Path:
    """A program with a kernel `add` for each number below MANY, of which `body` runs some."""
    instances = "    const auto all = std::make_integer_sequence<int, MANY>();\n"
    text = DECLARED + HEAD.replace("static int run", f"{kernels}\nstatic int run") + instances + body + "}\n"
    (folder / "many.cu").write_text(text)
    words = [str(TOOLKIT / "bin" / "mynvcc"), "-o", "many", "many.cu"]
    subprocess.run(words, cwd=folder, check=True, timeout=HANGS_AFTER_S)
    return folder / "many"


def test_a_kernel_computes_though_another_of_its_file_does_not_compile(host: GuestHost, tmp_path: Path) -> None:
    program = build(tmp_path, APART, "    run_one(3, x, all); run_one(4, x, all); run_one(3, x, all);\n")
    done = host.run(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "add cudaSuccess 4\nadd cudaSuccess 17\nadd cudaSuccess 55\n"


def test_the_kernel_that_does_not_compile_is_an_error_that_says_why(host: GuestHost, tmp_path: Path) -> None:
    done = host.run(build(tmp_path, APART, "    run_one(3, x, all); run_one(7, x, all); run_one(4, x, all);\n"))
    assert done.stdout == "add cudaSuccess 4\nadd cudaErrorInvalidKernelImage 4\nadd cudaSuccess 17\n"
    assert "missing" in done.stderr


def test_kernels_that_share_a_variable_are_compiled_together(host: GuestHost, tmp_path: Path) -> None:
    """The host's part of the program does not name the variable, so the device's compiler has to see it."""
    done = host.run(build(tmp_path, SHARED, "    run_one(3, x, all); run_one(4, x, all); run_one(5, x, all);\n"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "add cudaSuccess 103\nadd cudaSuccess 107\nadd cudaSuccess 112\n"


def test_a_reset_of_the_device_loads_them_again(host: GuestHost, tmp_path: Path) -> None:
    body = """
    run_one(3, x, all);
    printf("%s\\n", cudaGetErrorName(cudaDeviceReset()));
    cudaMalloc(&x, sizeof(*x));
    cudaMemset(x, 0, sizeof(*x));
    run_one(3, x, all);
"""
    done = host.run(build(tmp_path, APART, body))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "add cudaSuccess 4\ncudaSuccess\nadd cudaSuccess 4\n"
