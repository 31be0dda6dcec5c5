"""Relocatable code that lacks what a link will add: it loads on the CUDA engine, with definitions of ours."""

from __future__ import annotations

import pytest

from tests.unit.cuda_compile_rig import CompileError, compile_image, needs_nvcc, needs_nvrtc
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.compiler import undefined

SOURCE = r"""
#include <cstdio>
struct pair { int a, b; };
extern "C" __device__ int square(int, const pair &, void (*)(int *));
__device__ void nothing();
extern __device__ int factors[];
extern __constant__ pair both;
template <class T> __global__ void kernel(T *p) {
    extern __shared__ int shared[];
    shared[threadIdx.x] = factors[1];
    nothing();
    *p = square(shared[0], both, nullptr);
    printf("%d\n", *p);
}
"""
OPTIONS = ("-dc", "--allow-undefined", "--name-expression=kernel<int>", "--lowered-names")


@needs_nvrtc
@needs_nvcc
@pytest.mark.parametrize("hooks", ["on", "off"])
@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_what_is_missing_is_no_error(compiler: str, hooks: str) -> None:
    image, log = compile_image(SOURCE, OPTIONS, compiler=compiler, hooks=hooks)
    assert [kernel.name for kernel in cubin.parse(image).kernels] == ["_Z6kernelIiEvPT_"]
    assert compiler == "nvcc" or "vgc: lowered name 0: _Z6kernelIiEvPT_" in log
    with pytest.raises(CompileError, match=r"square|nothing|factors"):
        compile_image(SOURCE, OPTIONS[2:], compiler=compiler, hooks=hooks)


@needs_nvrtc
def test_errors_are_errors() -> None:
    with pytest.raises(CompileError, match='identifier "oops" is undefined'):
        compile_image(SOURCE + "__global__ void k() { oops(); }", OPTIONS)


def test_declarations_become_definitions() -> None:
    text = b""".version 8.0
.extern .func  (.param .b32 func_retval0) square
(
        .param .b32 square_param_0
)
;
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.extern .func nothing();
.extern .shared .align 16 .b8 sums[];
.extern .global .align 4 .b8 factors[];
.extern .const .align 4 .u32 one;
"""
    made = undefined.defined(text).decode()
    body = "\n{\n\ttrap;\n\tret;\n}\n"
    expected = text.decode()
    for declared, is_function in (("(.param .b32 func_retval0) square", True), ("nothing", True), (".global", False)):
        expected = _defined(expected, declared, body if is_function else ";")
    expected = _defined(expected, ".const", ";").replace("factors[]", "factors[1]")
    assert made == expected
    assert made.count("\ttrap;") == 2
    assert ".extern .func (.param .b32 func_retval0) vprintf" in made
    assert ".extern .shared .align 16 .b8 sums[];" in made


def _defined(text: str, declared: str, end: str) -> str:
    """The text with one declaration made a definition: its `.extern`, and the semicolon at its end."""
    before, after = text.split(declared)
    head, _, tail = before.rpartition(".extern")
    middle, _, rest = after.partition(";")
    return f"{head}.visible{tail}{declared}{middle}{end}{rest}"
