"""Programs that are built in a guest, with compilers, Makefiles and CMake, and compute on its device."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.vm.harness import CommandError
from tests.vm.workbench import Workbench, needs_toolkit
from tests.wheels import nvcc
from tools import installation
from tools.common import REPOSITORY
from vhost_backend.engines.cpu import cccl

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
    workbench.copy(EXAMPLES / "cuda" / "vector_add.cu")
    workbench.run("mynvcc vector_add.cu -o vector_add")
    assert re.search("^[0-9]+ sums are right$", workbench.run("./vector_add").stdout, flags=re.MULTILINE)


@needs_toolkit
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("streams", "^4 streams are right, in [0-9.]+ ms$"),
        ("texture", "^largest difference: [0-9.e-]+$"),
        ("thrust_sort", "^100000 numbers are sorted$"),
    ],
)
def test_examples_run_in_a_guest(workbench: Workbench, tmp_path: Path, name: str, says: str) -> None:
    """They are built here, as a guest's compiler is slow under emulation, and run there."""
    found = cccl.cccl()
    folders = ("-isystem", found.folder) if found else ()
    if name.startswith("thrust") and not folders:
        pytest.skip("NVIDIA's wheel nvidia-cuda-cccl is not installed")
    source, program = EXAMPLES / "cuda" / f"{name}.cu", tmp_path / name
    subprocess.run([installation.TOOLKIT / "bin" / "mynvcc", *folders, source, "-o", program], check=True)
    workbench.copy(program)
    assert re.search(says, workbench.run(f"./{name}").stdout, flags=re.MULTILINE)


@needs_toolkit
def test_a_program_compiles_by_nvrtc_in_a_guest(workbench: Workbench, tmp_path: Path) -> None:
    mynvcc, program = installation.TOOLKIT / "bin" / "mynvcc", tmp_path / "nvrtc"
    subprocess.run([mynvcc, EXAMPLES / "cuda" / "nvrtc.c", "-lnvrtc", "-lcuda", "-o", program], check=True)
    workbench.copy(program)
    assert re.search(
        "^_Z5raiseILi4EEvPfi: 1048576 powers are right$", workbench.run("./nvrtc 4").stdout, flags=re.MULTILINE
    )


@needs_toolkit
def test_a_program_of_the_driver_api_loads_its_module_in_a_guest(workbench: Workbench, tmp_path: Path) -> None:
    mynvcc = installation.TOOLKIT / "bin" / "mynvcc"
    program, module = tmp_path / "driver", tmp_path / "vector_add.cubin"
    subprocess.run([mynvcc, EXAMPLES / "cuda" / "driver.c", "-lcuda", "-o", program], check=True)
    subprocess.run([mynvcc, "-cubin", EXAMPLES / "cuda" / "vector_add.cu", "-o", module], check=True)
    workbench.copy(program)
    workbench.copy(module)
    assert re.search("^1048576 sums are right$", workbench.run("./driver vector_add.cubin").stdout, flags=re.MULTILINE)


@needs_toolkit
def test_a_program_that_nvidias_compiler_has_built_runs_as_it_is(workbench: Workbench, tmp_path: Path) -> None:
    compiler = nvcc()
    (tmp_path / "libcudart.so").symlink_to(installation.TOOLKIT / "lib64" / "libcudart.so.13")
    shutil.copytree(EXAMPLES / "cuda" / "nvcc", tmp_path / "nvcc")
    shutil.copy(EXAMPLES / "cuda" / "vector_add.cu", tmp_path)
    words: list[str | Path] = ["make", "-C", tmp_path / "nvcc", f"NVCC={compiler}", f"NVCCFLAGS=-O2 -L{tmp_path}"]
    subprocess.run(words, check=True)
    workbench.copy(tmp_path / "nvcc" / "vector_add")
    assert re.search("^[0-9]+ sums are right$", workbench.run("./vector_add").stdout, flags=re.MULTILINE)


@needs_toolkit
def test_libraries_of_the_host_are_in_the_guests_toolkit(workbench: Workbench) -> None:
    if not cccl.cccl():
        pytest.skip("NVIDIA's wheel nvidia-cuda-cccl is not installed")
    workbench.write("a.cu", "#include <thrust/version.h>\n#include <cuda/std/version>\nint main() {}\n")
    workbench.run("mynvcc a.cu -o a && ./a")


@needs_toolkit
def test_makefile_for_nvcc_builds_with_mynvcc(workbench: Workbench) -> None:
    """The project has an object of mynvcc's and one of the C++ compiler's, as most Makefiles for nvcc."""
    workbench.write("Makefile", MAKEFILE)
    workbench.write("add.cu", ADD_UNIT)
    workbench.write("main.cpp", MAIN_UNIT)
    workbench.run("make")
    assert workbench.run("./main").stdout == "2 4 6 8\n"


@needs_toolkit
def test_a_compiler_cache_takes_it_for_nvcc(workbench: Workbench) -> None:
    """The second compilation of a file is the first one's object."""
    workbench.write("add.cu", ADD_UNIT)
    for _ in range(2):
        workbench.run("CCACHE_DIR=cache ccache nvcc -c add.cu -o add.o")
    counts = dict(
        line.split("\t", 1) for line in workbench.run("CCACHE_DIR=cache ccache --print-stats").stdout.splitlines()
    )
    assert (counts["cache_miss"], counts["direct_cache_hit"]) == ("1", "1")


@needs_toolkit
def test_cmake_builds_a_cuda_project(workbench: Workbench) -> None:
    """CMake takes mynvcc, which it finds by the name of nvcc, for NVIDIA's."""
    workbench.copy(EXAMPLES / "cuda" / "cmake_project")
    shown = workbench.run("cmake -S . -B build && cmake --build build").stdout
    assert "The CUDA compiler identification is NVIDIA 12.6" in shown
    assert re.match("e: [0-9]+, t: [0-9]+, spaces: [0-9]+\n$", workbench.run("build/histogram").stdout)


@needs_toolkit
def test_kernels_run_on_the_guests_cpu_as_on_its_device(workbench: Workbench, tmp_path: Path) -> None:
    source, program = REPOSITORY / "tests" / "protocol" / "cudart_either_kernels.cu", tmp_path / "kernels"
    subprocess.run([installation.TOOLKIT / "bin" / "mynvcc", "-O2", source, "-o", program], check=True)
    workbench.copy(program)
    on_device = workbench.run("VGC_EITHER_SIDE=gpu ./kernels")
    on_cpu = workbench.run("VGC_EITHER_SIDE=cpu VGC_EITHER_REPORT=1 ./kernels 2>report")
    assert on_cpu.stdout == on_device.stdout
    assert on_cpu.stdout.endswith("done\n")
    assert ": walk: 0 launches on the device, 8 on the CPU" in workbench.read("report").decode()
