"""Texture and surface references become variables of the device; nothing else of a source changes."""

from __future__ import annotations

import pytest

from vhost_backend.engines.cuda.compiler import references

HEADER = '#include "vgc_references.h"\n#line 1\n'


@pytest.mark.parametrize(("source", "expected"), [
    ("texture<float> t;", "__device__ texture<float> t;"),
    ("  texture < uchar4 , 2, cudaReadMode >\n image ;", "  __device__ texture < uchar4 , 2, cudaReadMode >\n image ;"),
    ("static texture<int, 3> t;", "static __device__ texture<int, 3> t;"),
    ("extern surface<void, 2> s;", "extern __device__ surface<void, 2> s;"),
    ("int n; texture<float> t(0, cudaFilterModeLinear);", "int n; __device__ texture<float> t(0, cudaFilterModeLinear);"),
    ("namespace a {\ntexture<float> t;\n}", "namespace a {\n__device__ texture<float> t;\n}"),
])  # fmt: skip
def test_declarations_get_a_memory_space(source: str, expected: str) -> None:
    found = references.rewritten(source.encode()).decode()
    assert found == HEADER + expected
    assert references.is_rewritten(found.encode())


@pytest.mark.parametrize("source", [
    "", "__device__ void f(const texture<float> &t);", "template <class T> void f(texture<T> &t) {}",
    "int texture = 3;", "cudaTextureObject_t texture;", "std::vector<int> surface;", "using t = texture<float>;",
    "void f(int a,\n    texture<float> &t);",
])  # fmt: skip
def test_other_sources_stay_as_they_are(source: str) -> None:
    assert references.rewritten(source.encode()) == source.encode()
