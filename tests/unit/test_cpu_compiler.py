"""The CPU engine's compiler: errors name the guest's lines, and only device code is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, compile_image, rig
from vhost_backend.engines.base import ProgramError
from vhost_backend.engines.cpu import CpuEngine

EMPTY = 'extern "C" __global__ void f() {}\n'


def log_of(source: str, *options: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_image(source, options)
    return str(caught.value)


def run_values(source: str, *options: str, block: int = 4, dtype: type = np.int32) -> list[float]:
    with rig(pes=1) as gpu:
        gpu.load(source, options)
        out = gpu.array(block, dtype)
        gpu.launch("f", 1, block, out)
        return [value.item() for value in out]


def test_error_has_file_line_and_column() -> None:
    log = log_of('extern "C" __global__ void f(int *x) {\n    x[0] = undeclared;\n}\n')
    assert "source.cu:2:12: error: use of undeclared identifier 'undeclared'" in log


def test_line_directives_of_the_guest_are_followed() -> None:
    log = log_of('#line 40 "blur.cu"\nextern "C" __global__ void f() { oops(); }\n')
    assert "blur.cu:40:" in log


def test_warnings_come_with_the_image() -> None:
    image, log = compile_image('#warning "look here"\n' + EMPTY)
    assert "look here" in log
    assert image[:4] == b"\x7fELF"


def test_log_of_a_source_without_faults_is_empty() -> None:
    """Whatever processor the host has: clang warns of features of some that it has found itself."""
    _image, log = compile_image(EMPTY)
    assert not log


def test_source_without_kernels_is_refused() -> None:
    source = "__device__ int f(int x) { return x; }\n"
    assert "defines no kernel" in log_of(source)
    with rig(pes=1) as gpu:  # NVRTC compiles it
        gpu.load(source, ("--lowered-names",))
        assert not gpu.functions


def test_undefined_function_is_named() -> None:
    log = log_of('__device__ int outside(int);\nextern "C" __global__ void f(int *x) { x[0] = outside(1); }\n')
    assert "'outside(int)' is not defined" in log


def test_code_for_a_link_may_lack_functions_and_variables() -> None:
    source = """extern __device__ int given; __device__ int outside(int);
        extern "C" __global__ void f(int *x) { x[0] = x[1] ? outside(1) : 5 + given; }"""
    with rig(pes=1) as gpu:
        gpu.load(source, ("--allow-undefined",))
        out = gpu.array(2, np.int32)
        gpu.launch("f", 1, 1, out)
        assert out.tolist() == [5, 0]
        out[1] = 1
        with pytest.raises(LaunchError, match="__trap"):
            gpu.launch("f", 1, 1, out)


@pytest.mark.parametrize("name", ["system", "open", "calloc"])
def test_the_c_library_is_out_of_reach(name: str) -> None:
    log = log_of(
        f'extern "C" __device__ void *{name}(const char *);\nextern "C" __global__ void f() {{ {name}("x"); }}\n'
    )
    assert f"'{name}' is not defined, and not a function that kernels may call" in log


@pytest.mark.parametrize("header", ["stdint.h", "math.h", "cstdio", "cuda_fp16.h", "cooperative_groups.h", "cfloat"])
def test_usual_headers_can_be_included(header: str) -> None:
    compile_image(f"#include <{header}>\n{EMPTY}")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("-I/etc", "option '-I/etc' is not allowed"),
        ("-fplugin=/tmp/x.so", "option '-fplugin=/tmp/x.so' is not allowed"),
        ("-std=c++98", "unknown language standard 'c++98' (allowed: c++03, c++11, c++14, c++17, c++20)"),
        ("-D", "option '-D' needs a value"),
        ("other.cu", "option 'other.cu' is not allowed"),
    ],
)
def test_unsafe_options_are_refused(option: str, reason: str) -> None:
    assert reason in log_of(EMPTY, option)


def test_options_without_effect_are_accepted() -> None:
    compile_image(EMPTY, ("-arch=sm_70", "-arch", "sm_80", "--maxrregcount=32", "-O3", "-lineinfo", "-G", "-std=c++14"))


def test_options_for_gpus_are_accepted_without_effect() -> None:
    compile_image(EMPTY, ("--use-nvcc", "--extended-lambda", "--expt-relaxed-constexpr", "-Xptxas", "-v"))
    compile_image(EMPTY, ("--diag-suppress=177", "-diag-suppress", "550", "--ptxas-options=-v"))


def test_definitions_reach_the_source() -> None:
    source = 'extern "C" __global__ void f(int *x) { x[threadIdx.x] = VALUE + threadIdx.x; }\n'
    assert run_values(source, "-DVALUE=5") == [5, 6, 7, 8]
    assert run_values(source, "-D", "VALUE=6") == [6, 7, 8, 9]
    assert "VALUE" in log_of(source, "-DVALUE=1", "-UVALUE")


def test_name_expressions_instantiate_templates() -> None:
    source = "template <class T> __global__ void g(T *x) { x[threadIdx.x] = sizeof(T); }\n"
    with rig(pes=1) as gpu:
        gpu.load(source, ("--name-expression=g<short>", "--name-expression", "g<double>"))
        assert {"_Z1gIsEvPT_", "_Z1gIdEvPT_"} <= gpu.functions.keys()


def test_launch_syntax_instantiates_templates() -> None:
    source = "template <int N> __global__ void g(int *x) { *x = N; }\nvoid host(int *x) { g<7><<<1, 1>>>(x); }\n"
    with rig(pes=1) as gpu:
        gpu.load(source)
        x = gpu.array(1, np.int32)
        gpu.launch("g", 1, 1, x)
        assert x[0] == 7


def test_assembly_that_is_neither_x86_nor_ptx_is_an_error() -> None:
    assert "error" in log_of('extern "C" __global__ void f() { asm volatile("nonsense %eax"); }\n')


def test_assembly_outside_of_functions_is_left_out() -> None:
    image, _ = compile_image('asm(".incbin \\"/etc/passwd\\"");\n' + EMPTY)
    assert b"root:" not in image


def test_too_much_shared_memory_is_refused() -> None:
    log = log_of('extern "C" __global__ void f() { __shared__ volatile int s[30000]; s[0] = 1; __syncthreads(); }\n')
    assert "kernel 'f' uses 120000 bytes of static shared memory, at most 98304 are possible" in log


def test_shared_memory_is_counted_by_kernel() -> None:
    source = "".join(
        f'extern "C" __global__ void f{n}(int *x) {{ __shared__ int s[{n}]; s[threadIdx.x] = *x; __syncthreads(); *x = s[0]; }}\n'
        for n in (100, 2000)
    )
    with rig(pes=1) as gpu:
        gpu.load(source)
        assert (gpu.functions["f100"].shared_bytes, gpu.functions["f2000"].shared_bytes) == (400, 8000)


def test_barrier_behind_a_pointer_is_refused() -> None:
    log = log_of(
        "__device__ void g(int n) { if (n) g(n - 1); __syncthreads(); }\n"
        'extern "C" __global__ void f(int n) { g(n); }\n'
    )
    assert "waits for other threads, but is recursive or called through a pointer" in log


def test_kernel_is_compiled_the_same_each_time() -> None:
    source = 'extern "C" __global__ void f(int *x) { __shared__ int s[9], t[9]; s[0] = *x; t[1] = 2; __syncthreads(); *x = s[0] + t[1]; }'
    assert compile_image(source) == compile_image(source)


@pytest.mark.parametrize(
    "body",
    ['for (;;) asm volatile("pause");', "for (;;) atomicAdd(x, 1);", "__syncthreads(); for (;;) x[1]++;", "__trap();"],
)
def test_kernel_that_never_returns_compiles(body: str) -> None:
    image, _ = compile_image(f'extern "C" __global__ void f(volatile int *y) {{ int *x = (int *)y; {body} }}')
    assert image


def test_annotations_of_the_guest_are_ignored() -> None:
    attributes = ('annotate("")', 'annotate("vgc.kernel", 3, "x")', 'annotate("vgc.bounds")')
    for attribute in attributes:
        compile_image(f"__attribute__(({attribute})) __device__ void g() {{}}\n{EMPTY}")


def test_file_that_is_no_image_is_refused() -> None:
    with rig(pes=1) as gpu, pytest.raises(ProgramError, match="the image is not an x86-64 shared object"):
        gpu.load_image(b"kernel f\n" * 100)


@pytest.mark.parametrize("cut", [63, 500, 5000])
def test_truncated_image_is_refused(cut: int) -> None:
    image, _ = compile_image(EMPTY)
    with rig(pes=1) as gpu, pytest.raises(ProgramError, match="the image"):
        gpu.load_image(image[:cut])


def test_other_kinds_of_program_are_refused() -> None:
    with pytest.raises(ValueError, match="does not compile CUBIN; allowed: CUDA_SOURCE, CUDA_UNITS, PTX"):
        CpuEngine.compile_job("CUBIN", b"", (), {})


def test_identity_does_not_depend_on_the_source() -> None:
    job, other = (CpuEngine.compile_job("CUDA_SOURCE", source, (), {}) for source in (b"a", b"b"))
    assert job.identity == other.identity
