"""Headers of the guest's that stand before its source, and names that the log tells: what a guest's NVRTC sends."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.units import Unit
from tests.unit.cpu_rig import CompileError, compile_image, rig

SHAPE = '#pragma once\n#include "../b/size.h"\n#if __has_include("more.h")\n#error "there is more"\n#endif\n'
SIZE = "#ifndef SIZE\n#define SIZE 3\n#endif\n"
SOURCE = "#include <shape.h>\n__global__ void f(int *x) { *x = SIZE; }\n"


def listed(*files: tuple[str, str], folders: tuple[str, ...] = ("/app/a",)) -> str:
    head = f"//# vgc headers {len(folders)} {len(files)}\n" + "".join(f"{folder}\n" for folder in folders)
    return head + "".join(f"{len(text.encode())} {path}\n{text}" for path, text in files)


HEADERS = listed(("/app/a/shape.h", SHAPE), ("/app/b/size.h", SIZE))


def log_of(source: str, *options: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_image(source, options)
    return str(caught.value)


def result(source: str, *options: str) -> int:
    with rig(pes=1) as gpu:
        gpu.load(source, options)
        x = gpu.array(1, np.int32)
        gpu.launch("f", 1, 1, x)
        return int(x[0])


def test_headers_are_found_as_they_lie_in_the_guest() -> None:
    assert result(HEADERS + SOURCE) == 3
    assert result(HEADERS + SOURCE, "-DSIZE=5") == 5


def test_the_first_folder_counts() -> None:
    both = listed(("/a/n.h", "#define N 1\n"), ("/b/n.h", "#define N 2\n"), folders=("/b", "/a"))
    assert result(both + '#include "n.h"\n__global__ void f(int *x) { *x = N; }') == 2


def test_a_header_of_the_guest_may_have_kernels_launches_and_host_headers() -> None:
    text = """
        #include <cstdio>
        #include <vector>
        __global__ void g(int *x) { *x = 4; }
        inline void host(int *x) { g<<<1, 1>>>(x); }
        __global__ void f(int *x) { g<<<1, 1>>>(x); }
    """
    with rig(pes=1) as gpu:
        gpu.load(listed(("/a/k.h", text), folders=("/a",)) + "#include <k.h>\n")
        assert {"_Z1fPi", "_Z1gPi"} <= gpu.functions.keys()


def test_errors_name_the_guests_file() -> None:
    broken = listed(("/app/a/shape.h", "int x = y;\n")) + SOURCE
    assert "/app/a/shape.h:1:9: error: use of undeclared identifier 'y'" in log_of(broken)
    assert "'other.h' file not found" in log_of(HEADERS + "#include <other.h>\n" + SOURCE)


def test_each_unit_of_a_program_has_its_own_headers() -> None:
    unit = "#include <n.h>\n__device__ int NAME() { return N; }\n"
    with rig(pes=1) as gpu:
        gpu.link(
            Unit("a.cu", listed(("/a/n.h", "#define N 1\n#define NAME a\n"), folders=("/a",)) + unit),
            Unit("b.cu", listed(("/a/n.h", "#define N 2\n#define NAME b\n"), folders=("/a",)) + unit),
            Unit("c.cu", "__device__ int a(); __device__ int b(); __global__ void f(int *x) { *x = 10 * a() + b(); }"),
        )
        x = gpu.array(1, np.int32)
        gpu.launch("f", 1, 1, x)
        assert x[0] == 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("//# vgc headers 1", "ends in the middle of a line"),
        ("//# vgc headers 1\n", "no numbers that are allowed"),
        ("//# vgc headers 300 0\n", "up to 256 folders"),
        ("//# vgc headers 0 20000\n", "up to 16384 files"),
        ("//# vgc headers 0 1\nx /a.h\n", "lacks its size"),
        ("//# vgc headers 0 1\n9 /a.h\n", "the header /a.h ends early: 9 bytes announced, 0 there"),
        ("//# vgc headers 0 1\n0 a.h\n", "allowed: absolute paths"),
        ("//# vgc headers 0 1\n0 /../a.h\n", "allowed: absolute paths"),
        ('//# vgc headers 1 0\n/a"\n', "allowed: absolute paths"),
        (f"//# vgc headers 1 0\n/{'a' * 1100}\n", "of up to 1024 bytes"),
        ("//# vgc headers 0 2\n0 /a\n0 /a/b\n", "two headers of the source have the path /a/b, or it is a folder's"),
        ("//# vgc headers 0 2\n1 /a\nx1 /a\ny", "two headers of the source have the path /a"),
    ],
)
def test_malformed_lists_are_refused(text: str, words: str) -> None:
    assert words in log_of(text)


def test_a_guest_hides_headers_of_the_host_from_its_own_source_alone() -> None:
    hidden = listed(("/a/cuda_fp16.h", "#define MINE 6\n"), folders=("/a",))
    assert result(hidden + "#include <cuda_fp16.h>\n__global__ void f(int *x) { *x = MINE; }") == 6


def test_log_says_what_the_linker_calls_instances_if_asked() -> None:
    source = """
        template <class T> __global__ void g(T *x) {}
        template <class T> __device__ T table[4];
        namespace n { __constant__ int v; __global__ void k(int) {} __global__ void k(float) {} }
    """
    names = ["g<int>", "&g<float>", "&n::v", "table<double>", "(void (*)(float))n::k"]
    options = [f"--name-expression={name}" for name in names]
    _, log = compile_image(source, [*options, "--lowered-names"])
    lowered = ["_Z1gIiEvPT_", "_Z1gIfEvPT_", "_ZN1n1vE", "_Z5tableIdE", "_ZN1n1kEf"]
    assert log == "".join(f"vgc: lowered name {i}: {name}\n" for i, name in enumerate(lowered))
    assert compile_image(source, options)[1] == ""
