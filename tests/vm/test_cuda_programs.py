"""Programs that are built in a guest, with compilers, Makefiles and CMake, and compute on its device."""

from __future__ import annotations

from typing import Final

import pytest

from tests.vm.harness import CommandError
from tests.vm.workbench import Workbench, needs_toolkit
from tools.common import REPOSITORY

pytestmark = pytest.mark.vm

EXAMPLES: Final = REPOSITORY / "examples"

ENGINE: Final = """
#include <cstdio>
#include <vgc.h>

int main()
{
    struct vgc_device *device;
    if (vgc_open(nullptr, &device) != VGC_OK) {
        std::puts(vgc_last_error());
        return 1;
    }
    struct vgc_info info;
    vgc_info(device, &info);
    std::puts(info.vm_name);
    vgc_close(device);
}
"""
"""C++ program that prints the name of its VM, as the device gives it."""

C_AND_CXX: Final = """
cmake_minimum_required(VERSION 3.20)
project(saxpy LANGUAGES C CXX)
find_library(VGC vgc REQUIRED)
add_executable(saxpy saxpy.c)
add_executable(engine engine.cpp)
target_link_libraries(saxpy ${VGC})
target_link_libraries(engine ${VGC})
"""

VECTOR_ADD: Final = """
#include <cstdio>
#include <vector>

__global__ void add(const float *x, const float *y, float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = x[i] + y[i];
}

int main()
{
    const int n = 10000;
    std::vector<float> x(n), y(n), sum(n);
    for (int i = 0; i < n; i++) {
        x[i] = i;
        y[i] = 2 * i;
    }
    float *on_device;
    cudaMalloc(&on_device, 3 * n * sizeof(float));
    cudaMemcpy(on_device, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(on_device + n, y.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(on_device, on_device + n, on_device + 2 * n, n);
    cudaMemcpy(sum.data(), on_device + 2 * n, n * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += sum[i] != 3 * i;
    cudaError_t error = cudaGetLastError();
    printf("%d sums, %d wrong, %s\\n", n, wrong, cudaGetErrorString(error));
    return wrong != 0 || error != cudaSuccess;
}
"""
ADDED: Final = "10000 sums, 0 wrong, no error\n"

MAKEFILE: Final = """
CUDA_PATH ?= /usr/local/cuda
NVCC := $(CUDA_PATH)/bin/nvcc

main: main.o add.o
	$(NVCC) -o $@ $^
%.o: %.cu
	$(NVCC) -O2 -arch=sm_80 -c -o $@ $<
main.o: main.cpp
	$(CXX) -O2 -I$(CUDA_PATH)/include -c -o $@ $<
"""
ADD_UNIT: Final = """
__global__ void twice(int *values) { values[threadIdx.x] *= 2; }
extern "C" void double_them(int *values, int n) { twice<<<1, n>>>(values); }
"""
MAIN_UNIT: Final = """
#include <cstdio>
#include <cuda_runtime.h>
extern "C" void double_them(int *values, int n);
int main()
{
    int values[4] = {1, 2, 3, 4}, *on_device;
    cudaMalloc((void **)&on_device, sizeof(values));
    cudaMemcpy(on_device, values, sizeof(values), cudaMemcpyHostToDevice);
    double_them(on_device, 4);
    cudaMemcpy(values, on_device, sizeof(values), cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\\n", values[0], values[1], values[2], values[3]);
}
"""

CUDA_PROJECT: Final = """
cmake_minimum_required(VERSION 3.20)
project(sums LANGUAGES CXX CUDA)
set(CMAKE_CUDA_STANDARD 17)
add_executable(sums sums.cu)
"""


def test_makefile_builds_cpp_against_libvgc(workbench: Workbench) -> None:
    workbench.write("engine.cpp", ENGINE)
    workbench.write("Makefile", "CXX := clang++\nLDLIBS := -lvgc\nengine: engine.cpp\n")
    workbench.run("make")
    assert workbench.run("./engine").stdout == "development\n"


def test_cmake_builds_c_and_cpp_against_libvgc(workbench: Workbench) -> None:
    workbench.write("CMakeLists.txt", C_AND_CXX)
    workbench.write("engine.cpp", ENGINE)
    workbench.copy(EXAMPLES / "saxpy.c")
    workbench.run("cmake -S . -B build && cmake --build build")
    assert workbench.run("build/saxpy").stdout == "saxpy of 1048576 elements: right\n"
    assert workbench.run("build/engine").stdout == "development\n"


def test_compiler_errors_and_exit_codes_come_out_of_the_guest(workbench: Workbench) -> None:
    workbench.write("wrong.cpp", "int main() { return nonsense; }")
    with pytest.raises(CommandError, match="use of undeclared identifier 'nonsense'"):
        workbench.run("clang++ wrong.cpp")
    assert workbench.run("exit 3", check=False).exit == 3


@needs_toolkit
def test_doctor_finds_that_programs_can_be_compiled(workbench: Workbench) -> None:
    assert (
        "[ ok ] CUDA programs: /usr/local/bin/mynvcc and clang++-19 compile them" in workbench.run("vgc doctor").stdout
    )


@needs_toolkit
def test_mynvcc_builds_a_program_that_computes(workbench: Workbench) -> None:
    workbench.write("add.cu", VECTOR_ADD)
    workbench.run("mynvcc add.cu -o add")
    assert workbench.run("./add").stdout == ADDED


@needs_toolkit
def test_makefile_for_nvcc_builds_with_mynvcc(workbench: Workbench) -> None:
    """The project has an object of mynvcc's and one of the C++ compiler's, as most Makefiles for nvcc."""
    workbench.write("Makefile", MAKEFILE)
    workbench.write("add.cu", ADD_UNIT)
    workbench.write("main.cpp", MAIN_UNIT)
    workbench.run("make")
    assert workbench.run("./main").stdout == "2 4 6 8\n"


@needs_toolkit
def test_cmake_builds_a_cuda_project(workbench: Workbench) -> None:
    workbench.write("CMakeLists.txt", CUDA_PROJECT)
    workbench.write("sums.cu", VECTOR_ADD)
    workbench.run("cmake -S . -B build && cmake --build build")
    assert workbench.run("build/sums").stdout == ADDED
