"""The compiler reports kinds of parameters, also for kernels whose names do not encode them."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_compile_rig import ARCHITECTURES, compile_image, compiled_kinds, needs_nvcc, needs_nvrtc, toolkit
from vhost_backend.engines.cuda.compiler import trailer
from virtio_proto.schema import ParamKind

pytestmark = needs_nvrtc

UNKNOWN, INTEGER, FLOAT, POINTER, OTHER = ParamKind
COMPILERS = ["nvrtc", pytest.param("nvcc", marks=needs_nvcc)]
SAXPY = """
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""
ALL = """
struct Large { int values[5]; };
struct One { float value; };
struct Held { float *values; };
enum Mode { FAST, EXACT };
enum class Small : unsigned char { A };
struct half { unsigned short bits; };
#define ALL(name) __global__ void name(bool b, char c, short s, int i, Mode mode, Small small, float f, double d, \\
    Large large, One one, Held held, float4 vector, half bits, unsigned long wide, float *unused, Large *used) \\
    { used->values[0] = i; }
ALL(mangled)
extern "C" ALL(plain)
extern "C" __global__ void nothing() {}
"""
SCALARS = (INTEGER,) * 6 + (FLOAT, FLOAT)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kinds_of_a_kernel_with_an_unmangled_name(arch: str, compiler: str) -> None:
    found = compiled_kinds(SAXPY, arch=arch, compiler=compiler)
    assert found == {"saxpy": (INTEGER, FLOAT, POINTER, POINTER)}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_parameters_of_every_shape(compiler: str) -> None:
    """In PTX, an integer of 8 bytes is UNKNOWN, and so is a struct of 2 bytes, since a __half looks the same."""
    found = compiled_kinds(ALL, compiler=compiler)
    named = next(found[name] for name in found if "mangled" in name)
    assert found["plain"] == (*SCALARS, OTHER, OTHER, OTHER, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, POINTER)
    assert named == (*SCALARS, OTHER, OTHER, OTHER, OTHER, UNKNOWN, INTEGER, POINTER, POINTER)
    assert found["nothing"] == ()


def test_unused_pointer_is_recognised_on_new_architectures() -> None:
    source = 'extern "C" __global__ void f(float *x, long n) {}'
    assert compiled_kinds(source, arch="sm_90") == {"f": (UNKNOWN, UNKNOWN)}
    assert compiled_kinds(source, arch="sm_120") == {"f": (POINTER, UNKNOWN)}


def test_integer_used_as_an_address_counts_as_a_pointer() -> None:
    source = 'extern "C" __global__ void f(unsigned long at, long by) { ((int *)at)[0] = by; }'
    assert compiled_kinds(source) == {"f": (POINTER, UNKNOWN)}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_programs_for_debuggers_have_kinds(compiler: str) -> None:
    assert compiled_kinds(SAXPY, "-G", compiler=compiler)["saxpy"][:2] == (INTEGER, FLOAT)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_kinds_of_templates_from_name_expressions(compiler: str) -> None:
    source = "struct P { float v; };\ntemplate <class T> __global__ void g(T *x, P p) { *x = p.v; }\n"
    found = compiled_kinds(source, "--name-expression=g<int>", compiler=compiler)
    assert found == {"_Z1gIiEvPT_1P": (POINTER, OTHER)}


def made(mode: str) -> bytes:
    """Compiles SAXPY for sm_90 with nvcc."""
    kit = toolkit()
    assert kit is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.cu").write_text(SAXPY)
        words = [str(kit.nvcc), mode, "-arch=compute_90" if mode == "-ptx" else "-arch=sm_90", "a.cu", "-o", "made"]
        subprocess.run(words, cwd=folder, check=True, timeout=HANGS_AFTER_S)
        return (Path(folder) / "made").read_bytes()


@needs_nvcc
def test_kinds_of_a_guests_ptx() -> None:
    assert compiled_kinds(made("-ptx"), kind="PTX") == {"saxpy": (INTEGER, FLOAT, POINTER, POINTER)}


@needs_nvcc
def test_cubin_of_a_guest_cannot_bring_kinds() -> None:
    """Bytes behind a guest's cubin stay part of the cubin."""
    forged = trailer.with_kinds(
        made("-cubin"), b".entry saxpy(.param .f32 a, .param .f32 b, .param .f64 c, .param .f64 d) {"
    )
    assert b"saxpy f4 f4 f8 f8\n" in forged
    assert compile_image(forged, kind="CUBIN")[0] == forged
    assert compiled_kinds(forged, kind="CUBIN") == {"saxpy": ()}
