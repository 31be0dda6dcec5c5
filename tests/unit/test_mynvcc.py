"""mynvcc: what becomes of a CUDA program's host code, and of the text of its device code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from tests.fakes.device import FakeDevice
from tests.fakes.link import GuestLink
from tests.unit.cpu_rig import compile_image
from tests.unit.guest_rig import fake, link
from tests.unit.mynvcc_rig import CLANGS, Toolkit, fake_toolkit, toolkit
from tools.common import REPOSITORY
from virtio_proto.schema import Opcode

__all__ = ["fake", "fake_toolkit", "link", "toolkit"]

PROGRAM: Final = """
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include "scale.h"
__constant__ int table[4];
__device__ float *pointer;
static __global__ void add(int n, const float *a, float *b) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] += SCALE * a[i] + table[i % 4];
}
template <class T> __global__ void fill(T *values, T value) { values[threadIdx.x] = value; }
int main() {
    float *a, *b;
    cudaMalloc(&a, 4096);
    cudaMalloc((void **)&b, 4096);
    const int values[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(table, values, sizeof(values));
    add<<<dim3(4, 2), 256, 16>>>(1024, a, b);
    fill<<<1, 32>>>((int *)a, 3);
    printf("%s\\n", cudaGetErrorString(cudaGetLastError()));
}
"""
HEADER: Final = """
#pragma once
#include <cmath>
#if __CUDA_ARCH__ >= 700 && \\
    defined(FACTOR)
#define SCALE FACTOR
#else
#define SCALE 1
#endif
"""


@pytest.mark.parametrize("clang", CLANGS)
def test_program_registers_and_launches_its_kernels(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu=PROGRAM, scale_h=HEADER)
    toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang})
    lines = toolkit.output()
    assert lines[1:5] == [
        "kernel _ZL3addiPKfPf",
        "kernel _Z4fillIiEvPT_S0_",
        "variable table 16 constant",
        "variable pointer 8",
    ]
    assert lines[5] == "to symbol 16 at 0 kind 1"
    assert lines[6] == "launch _ZL3addiPKfPf grid 4 2 1 block 256 1 1 shared 16 first 1024"
    assert lines[7].startswith("launch _Z4fillIiEvPT_S0_ grid 1 1 1 block 32 1 1 shared 0")
    assert lines[8] == "no error"


@pytest.mark.parametrize("clang", CLANGS)
def test_text_compiles_on_the_device_under_the_names_that_are_registered(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu=PROGRAM, scale_h=HEADER)
    toolkit.build("-DFACTOR=3", "main.cu", environment={"MYNVCC_CLANG": clang})
    image, _log = compile_image(toolkit.text(), ["-DFACTOR=3"])
    for name in ("_ZL3addiPKfPf", "_Z4fillIiEvPT_S0_", "table", "pointer"):
        assert name.encode() in image


def test_text_is_the_same_from_every_clang(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=PROGRAM, scale_h=HEADER)
    texts = set()
    for clang in CLANGS:
        toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang})
        texts.add(toolkit.text())
    assert len(texts) == 1


def test_headers_that_every_machine_has_stay_directives(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=PROGRAM, scale_h=HEADER)
    toolkit.build("main.cu")
    text = toolkit.text()
    assert [line for line in text.splitlines() if line.startswith("#include")] == [
        "#include <cstdio>",
        "#include <vector>",
        "#include <cmath>",
    ]


def test_conditions_are_left_to_the_device(toolkit: Toolkit) -> None:
    toolkit.write(main_cu=PROGRAM, scale_h=HEADER)
    toolkit.build("main.cu")
    assert "#if __CUDA_ARCH__ >= 700 && \\\n    defined(FACTOR)\n" in toolkit.text()


def test_what_a_program_has_taken_out_stays_out(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="#if 0\nno code\n#endif\n#if 0\nnone\n#elif 1\nint one;\n#else\nnone either\n#endif\n"
        "__global__ void kernel() {}\nint main() {}\n"
    )
    toolkit.build("main.cu")
    assert compile_image(toolkit.text())


def test_conditions_about_files_are_not(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="#if __has_include(<stdio.h>)\nint found;\n#elif __has_include(<none.h>)\nint none;\n#endif\nint main() {}\n"
        "__global__ void kernel() {}\n"
    )
    toolkit.build("main.cu")
    text = toolkit.text()
    assert "__has_include" not in text
    assert compile_image(text + "#ifdef none\n#error\n#endif\n")


def test_conditions_that_are_never_true_keep_their_brackets(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="#if 0\nnothing\n#endif\n#if 0\nnothing\n#else\nint main() {}\n#endif\n__global__ void kernel() {}\n"
    )
    toolkit.build("main.cu")
    assert compile_image(toolkit.text())


def test_lines_may_end_as_on_windows(toolkit: Toolkit) -> None:
    source = "#include <chrono>\n#if __CUDA_ARCH__ > 1\n#endif\n__global__ void kernel() {}\nint main() {}\n"
    (toolkit.folder / "main.cu").write_bytes(source.replace("\n", "\r\n").encode())
    toolkit.build("main.cu")
    text = toolkit.text()
    assert "#include <chrono>" in text
    assert compile_image(text)


def test_directives_may_be_indented(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="#ifndef none\n  #include <chrono>\n  #if defined(none)\n  #elif __CUDA_ARCH__ > 1\n  #endif\n#endif\n"
        "__global__ void kernel() {}\nint main() {}\n"
    )
    toolkit.build("main.cu")
    text = toolkit.text()
    assert "#include <chrono>" in text
    assert compile_image(text)


def test_headers_of_libraries_travel_with_the_text(toolkit: Toolkit) -> None:
    toolkit.write(main_cu="#include <cufft.h>\n__global__ void kernel(cufftComplex *x) { x->x = 0; }\nint main() {}\n")
    toolkit.build("main.cu")
    text = toolkit.text()
    assert "typedef cuComplex cufftComplex;" in text
    assert "#include <cuComplex.h>" in text
    assert compile_image(text)


def test_options_travel_with_the_text(toolkit: Toolkit) -> None:
    toolkit.write(main_cu="__global__ void kernel() {}\nint main() {}\n")
    toolkit.build("-std=c++14", "-DNAME=a b", "-UNDEBUG", "-O3", "--use_fast_math", "-Xptxas", "-v", "main.cu")
    options = [line for line in toolkit.output() if line.startswith("option ")]
    assert options == ["option -DNAME=a b", "option -UNDEBUG", "option --use_fast_math", "option -std=c++14"]


def test_files_of_c_and_cxx_are_linked_with_them(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu='#include <cstdio>\nextern "C" float in_c(int);\nfloat in_cxx(int);\n'
        'int main() { printf("%g %g\\n", in_c(1), in_cxx(2)); }\n',
        a_c="#include <cuda_runtime.h>\nfloat in_c(int x) { float4 v = make_float4(x, 2, 3, 4); return v.x + v.w; }\n",
        b_cpp="#include <cuda_runtime_api.h>\nfloat in_cxx(int x) {\n    dim3 size(x, 2);\n    float *memory;\n"
        "    return cudaMalloc(&memory, 4) == cudaSuccess ? size.x + size.z : 0;\n}\n",
    )
    toolkit.build("-c", "a.c")
    toolkit.build("main.cu", "a.o", "b.cpp", "-o", "program")
    assert toolkit.output("program")[-1] == "5 3"


def test_host_code_has_the_functions_that_cuda_adds(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="""
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuComplex.h>
int main() {
    printf("%g %g %d %g\\n", rsqrtf(4.0f), normcdf(0.0), max(3, 4), min(2.5f, 1.5));
    printf("%g %g %g\\n", __half2float(__float2half(65519.0f)), (float)__half(6.1e-5f), (float)__nv_bfloat16(1.01f));
    printf("%g %g\\n", cuCabsf(make_cuFloatComplex(3, 4)), cuCreal(cuCmul(make_cuDoubleComplex(0, 1), {0, 1})));
}
"""
    )
    for clang in CLANGS:
        toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang})
        assert toolkit.output()[-3:] == ["0.5 0.5 4 1.5", "65504 6.09756e-05 1.00781", "5 -1"]


@pytest.mark.parametrize("clang", CLANGS)
def test_overflows_of_host_code_wrap(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(main_cu="int main(int argc, char **) { return argc + 0x7fffffff > argc; }\n")
    toolkit.build("-O3", "main.cu", environment={"MYNVCC_CLANG": clang})
    toolkit.output()


@pytest.mark.parametrize("clang", CLANGS)
def test_constexpr_functions_may_never_be_constant(toolkit: Toolkit, clang: str) -> None:
    """Compilers that know the value of ``::log(1.0)`` accept them, as gcc and nvcc."""
    toolkit.write(
        main_cu="#include <cmath>\n__host__ __device__ constexpr double zero() { return ::log(1.0); }\n"
        "int main() { return zero() != 0; }\n"
    )
    toolkit.build("main.cu", environment={"MYNVCC_CLANG": clang})
    toolkit.output()


def test_block_size_of_most_threads_is_the_largest_of_equal_ones(toolkit: Toolkit) -> None:
    toolkit.write(
        main_cu="""
#include <cstdio>
__global__ void kernel() {}
int main() {
    int grid, block;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel);
    printf("%d %d\\n", grid, block);
    cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, kernel, [](int size) { return size * 16; }, 500);
    printf("%d %d\\n", grid, block);
}
"""
    )
    toolkit.build("main.cu")
    assert toolkit.output()[-2:] == ["8 768", "192 32"]


def test_errors_are_in_the_file_of_the_user(toolkit: Toolkit) -> None:
    toolkit.write(main_cu="int main() {\n    return missing;\n}\n")
    done = toolkit.nvcc("main.cu")
    assert done.returncode != 0
    assert "main.cu:2:12: error:" in done.stderr


@pytest.mark.parametrize("clang", CLANGS)
@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_headers_are_fit_for_every_clang(toolkit: Toolkit, clang: str, standard: str) -> None:
    headers = (
        "algorithm cmath complex numeric vector cooperative_groups.h cooperative_groups/reduce.h cuda.h cuda_bf16.h "
        "cuda_fp16.h cuda_fp4.h cuda_fp6.h cuda_fp8.h cuda_profiler_api.h cuComplex.h curand_kernel.h math_constants.h "
        "mma.h nvToolsExt.h vgc_texture.h vgc_surface.h"
    )
    toolkit.write(main_cu="".join(f"#include <{name}>\n" for name in headers.split()) + "int main() {}\n")
    toolkit.build(f"-std={standard}", "main.cu", "-c", environment={"MYNVCC_CLANG": clang})


@pytest.mark.parametrize("compiler", ["g++", *CLANGS])
def test_files_without_cuda_can_include_the_headers(toolkit: Toolkit, compiler: str) -> None:
    headers = "cuda_runtime.h cuda_fp16.h cuda_bf16.h cuComplex.h cuda.h curand.h curand_kernel.h vector_types.h omp.h"
    body = "curandState state; __half number = __float2half(1.5f); float4 four = make_float4(1, 2, 3, 4); dim3 size(1, 2);\n"
    toolkit.write(a_cpp="".join(f"#include <{name}>\n" for name in f"{headers} cassert complex".split()) + body)
    toolkit.build("-ccbin", compiler, "-Xcompiler", "-Wall,-Werror", "-c", "a.cpp")


@pytest.mark.parametrize("compiler", ["gcc", *(clang.replace("clang++", "clang") for clang in CLANGS)])
@pytest.mark.parametrize("standard", ["c99", "gnu17"])
def test_files_of_c_can_include_the_headers(toolkit: Toolkit, compiler: str, standard: str) -> None:
    headers = (
        "cuda_runtime.h cuda_runtime_api.h cuda_fp16.h cuda_bf16.h cuComplex.h cuda.h library_types.h vector_types.h "
        "nvtx3/nvToolsExt.h curand.h"
    )
    body = "cuComplex f(cuComplex x) { return cuCaddf(cuCmulf(x, x), make_cuComplex(x.x, x.y)); }\n"
    toolkit.write(a_c="".join(f"#include <{name}>\n" for name in headers.split()) + body)
    include = toolkit.top / "include"
    command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-c", "a.c"]
    done = subprocess.run(command, cwd=toolkit.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("clang", CLANGS)
def test_constant_pointers_and_textures_are_taken(toolkit: Toolkit, clang: str) -> None:
    toolkit.write(
        a_cu="""
texture<float4, 2> pictures;
__global__ void read(cudaTextureObject_t object, float *to) {
    *to = tex2D(pictures, 1.0f, 2.0f).x + tex1Dfetch<float>(object, 3);
}
void allocate(const float **memory) {
    cudaMalloc(memory, 4);
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
    cudaBindTexture2D(nullptr, pictures, *memory, format, 16, 16, 256);
    cudaUnbindTexture(pictures);
}
"""
    )
    toolkit.build("-Xcompiler", "-Wall,-Werror", "-c", "a.cu", environment={"MYNVCC_CLANG": clang})


def test_brackets_of_launches_may_have_blanks(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu="""
#include <iostream>
__global__ void kernel(int x) {}
int main() {
    kernel<< <1, 2 >> > (5);
    std::cout << "<< <" << (64 >> 2 >> 1) << '\\n';
}
"""
    )
    for clang in CLANGS:
        toolkit.build("-MD", "-MF", "rule", "-o", "a.out", "a.cu", environment={"MYNVCC_CLANG": clang})
        assert toolkit.output()[-2].startswith("launch _Z6kerneli grid 1 1 1 block 2 1 1 ")
        assert toolkit.output()[-1] == "<< <8"


def test_alignas_may_stand_behind_a_memory_space(toolkit: Toolkit) -> None:
    toolkit.write(
        a_cu="""
__constant__ alignas(8) char letters[4] = {'a', 'b'};
template <class T> __global__ void kernel(char *to) {
    __shared__ alignas(T) char tile[32];
    extern __shared__  alignas( 16 ) char rest[];
    tile[threadIdx.x] = rest[threadIdx.x] = letters[0];
    *to = tile[0] + rest[1];
}
int main() { kernel<double><<<1, 2, 32>>>(nullptr); }
"""
    )
    for clang in CLANGS:
        toolkit.build("-c", "a.cu", environment={"MYNVCC_CLANG": clang})
    toolkit.build("a.cu")
    image, _log = compile_image(toolkit.text(), [])
    assert b"_Z6kernelIdEvPc" in image


@pytest.fixture
def check(toolkit: Toolkit, link: GuestLink) -> Callable[[], subprocess.CompletedProcess[str]]:
    """Compiles a.cu with --check, beside a device."""
    library = toolkit.top / "lib64" / "libvgc.so"
    library.unlink(missing_ok=True)
    library.symlink_to(REPOSITORY / "guest_driver" / "libvgc" / "build" / "libvgc.so")
    environment = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(toolkit.folder)}
    return lambda: toolkit.nvcc("--check", "-c", "a.cu", environment=environment, fds=link.fds)


def test_check_has_the_device_compile_the_text(
    toolkit: Toolkit, fake: FakeDevice, check: Callable[[], subprocess.CompletedProcess[str]]
) -> None:
    toolkit.write(a_cu="__global__ void kernel() {}\n")
    done = check()
    assert done.returncode == 0, done.stderr
    assert Opcode.PROGRAM_LOAD in fake.opcodes()


def test_check_prints_the_log_of_the_devices_compiler_once(
    toolkit: Toolkit, fake: FakeDevice, check: Callable[[], subprocess.CompletedProcess[str]]
) -> None:
    toolkit.write(a_cu="__global__ void error() {}\n")
    done = check()
    assert Opcode.PROGRAM_LOAD in fake.opcodes()
    assert done.stderr == "line 1: error: no such thing\nnvcc fatal   : --check: the program does not compile\n"
    assert done.returncode == 1


def test_check_without_a_device_says_what_is_missing(toolkit: Toolkit) -> None:
    toolkit.write(a_cu="__global__ void kernel() {}\n")
    done = toolkit.nvcc("--check", "-c", "a.cu", environment={"VGC_MEMFD": ""})
    assert (done.returncode, done.stderr.startswith("nvcc fatal   : --check needs ")) == (1, True)
