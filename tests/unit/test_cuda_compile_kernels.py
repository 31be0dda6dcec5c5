"""The repository's own kernels, and programs with the headers that .cu files include, compile for every architecture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.cuda_compile_rig import (
    ARCHITECTURES,
    EMPTY,
    compile_image,
    in_the_repository,
    log_of,
    needs_nvcc,
    needs_nvrtc,
    parsed,
)
from vhost_backend.engines.cuda.names import short_name

pytestmark = needs_nvrtc

BENCH: Final = sorted(in_the_repository("bench/kernels").glob("*.cu"))
C_NAMES: Final = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(')

HEADERS: Final = (
    *(
        "assert.h",
        "float.h",
        "limits.h",
        "math.h",
        "stdbool.h",
        "stddef.h",
        "stdint.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
    ),
    *("cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "ctime", "time.h"),
    *("algorithm", "limits", "new", "type_traits", "utility"),
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "vector_types.h", "cuComplex.h"),
    *(
        "vector_functions.h",
        "math_constants.h",
        "sm_20_atomic_functions.h",
        "cuda_pipeline.h",
        "cuda_awbarrier.h",
        "cuda_awbarrier_primitives.h",
        "cuda_pipeline_primitives.h",
    ),
    *("cooperative_groups.h", "cooperative_groups/reduce.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h"),
)

INCLUDE: Final = re.compile(r"^#include .*\n", re.MULTILINE)
CPU_ENGINE_ONLY: Final = (
    ('asm volatile("ud2")', "__trap()"),
    (
        'asm("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(by - (int)threadIdx.x));',
        "rest = quotient /= by - threadIdx.x;",
    ),
    ("__globaltimer()", "clock64()"),
    ('asm volatile("addq $41, %0" : "+r"(r));', "r += 41;"),
)
"""Replacements for parts of cpu_features.cu that CUDA lacks: x86 assembly, and the CPU engine's name of a clock."""


def c_text(path: str) -> str:
    """The CUDA source in a C program: its string literals behind ``SOURCE``."""
    text = in_the_repository(path).read_text().partition("SOURCE[] =")[2].partition(";\n\n")[0]
    literals: list[str] = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    return "".join(literals).encode().decode("unicode_escape")


def examples() -> dict[str, str]:
    """The CUDA source of each example."""
    from examples import matmul, photo  # Pillow may be missing

    return {"matmul": matmul.SOURCE, "photo": photo.SOURCE, "saxpy": c_text("examples/saxpy.c")}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("path", BENCH, ids=lambda path: path.stem)
def test_benchmark_kernels_compile(path: Path, arch: str) -> None:
    source = path.read_text()
    found = parsed(source, arch=arch)
    assert {kernel.name for kernel in found.kernels} == set(C_NAMES.findall(source))
    assert found.capability == int(arch.removeprefix("sm_"))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", ["matmul", "photo", "saxpy"])
def test_example_kernels_compile(name: str, arch: str) -> None:
    pytest.importorskip("PIL", reason="examples/photo.py needs Pillow")
    source = examples()[name]
    assert {kernel.name for kernel in parsed(source, arch=arch).kernels} == set(C_NAMES.findall(source))


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_all_kernels_compile_with_nvcc(arch: str) -> None:
    texts = {path.stem: path.read_text() for path in BENCH}
    includes = "".join(line for text in texts.values() for line in INCLUDE.findall(text))
    source = includes + "\n".join(f"namespace {name} {{\n{INCLUDE.sub('', text)}\n}}" for name, text in texts.items())
    assert {kernel.name for kernel in parsed(source, arch=arch, compiler="nvcc").kernels} == set(
        C_NAMES.findall(source)
    )


@pytest.mark.parametrize("compiler", ["nvrtc", pytest.param("nvcc", marks=needs_nvcc)])
def test_the_kernels_of_the_cpu_engines_tests_compile(compiler: str) -> None:
    source = in_the_repository("tests/unit/cpu_features.cu").read_text()
    for there, here in CPU_ENGINE_ONLY:
        source = source.replace(there, here)
    source = "#include <assert.h>\n#include <stdio.h>\n" + source
    found = {short_name(kernel.name) for kernel in parsed(source, compiler=compiler).kernels}
    assert {"saxpy", "struct_params", "scale", "apply", "bounded", "reverse_static"} <= found


@pytest.mark.parametrize("header", HEADERS)
def test_usual_headers_can_be_included(header: str) -> None:
    _, log = compile_image(f"#include <{header}>\n{EMPTY}")
    assert log == ""


def test_usual_headers_can_be_included_together() -> None:
    lines = "".join(f"#include <{header}>\n" for header in (*HEADERS, *reversed(HEADERS)))
    _, log = compile_image(lines + EMPTY)
    assert log == ""


def test_headers_define_their_usual_names() -> None:
    compile_image("""
        #include <cassert>
        #include <cfloat>
        #include <climits>
        #include <cmath>
        #include <cstddef>
        #include <cstdint>
        #include <cstdio>
        #include <cstdlib>
        #include <cstring>
        #include <ctime>
        #include <new>
        __global__ void f(float *x, uint64_t n, double *d) {
            x[0] = NAN + std::abs(x[1]) + std::sqrt(x[2]) + std::fmaf(x[0], x[1], FLT_EPSILON);
            std::printf("%d\\n", 3);
            void *p = std::malloc(sizeof(float));
            assert(p != NULL && "no memory");
            std::memset(p, 0, sizeof(float));
            new (p) float(3);
            std::free(p);
            constexpr float infinite = INFINITY;
            d[0] = std::abs(-3l) + std::clock() + infinite + HUGE_VAL + M_PI * FLT_MAX * INT_MAX;
            d[1] = isnan(d[2]) + std::isinf(d[1]) + std::isfinite(d[5]) + signbit(d[3]);
            static_assert(SIZE_MAX == UINT64_MAX && INT64_MIN < INT32_MIN && CHAR_BIT == 8 && DBL_DIG == 15, "");
            static_assert(sizeof(std::ptrdiff_t) == 8, "");
            d[2] = offsetof(max_align_t, __vgc_real);
        }
    """)


def test_type_traits_and_limits_work() -> None:
    compile_image(in_the_repository("tests/unit/cuda_headers.cu").read_text())


def test_every_inclusion_of_assert_follows_ndebug() -> None:
    source = "#include <assert.h>\n#define NDEBUG\n#include <assert.h>\n"
    source += 'extern "C" __global__ void f() { assert(this is no expression); }\n'
    compile_image(source)


def test_cuda_cpp_library_works_beside_the_standard_one() -> None:
    found = parsed("""
        #include <stdint.h>
        #include <limits>
        #include <type_traits>
        #include <cmath>
        #include <cuda/std/cstdint>
        #include <cuda/std/array>
        #include <cuda/std/complex>
        #include <cuda/std/limits>
        #include <cuda/std/tuple>
        #include <cuda/std/type_traits>
        #include <cuda/atomic>
        #include <cuda/barrier>
        __global__ void k(uint64_t *x, cuda::std::uint64_t *y, cuda::std::complex<float> *c) {
            static_assert(cuda::std::is_same_v<uint64_t, cuda::std::uint64_t>);
            static_assert(cuda::std::numeric_limits<uint64_t>::max() == std::numeric_limits<uint64_t>::max());
            cuda::atomic_ref<uint64_t, cuda::thread_scope_device>(*x).fetch_add(1);
            c[0] *= c[1];
            cuda::std::array<int, 3> values{1, 2, 3};
            y[1] = values[threadIdx.x];
        }
    """)
    assert [kernel.name for kernel in found.kernels] == ["_Z1kPmS_PN4cuda3std3__47complexIfEE"]
    assert found.variables == ()


def test_missing_header_is_named() -> None:
    assert 'cannot open source file "thrust_me.h"' in log_of(f"#include <thrust_me.h>\n{EMPTY}")
