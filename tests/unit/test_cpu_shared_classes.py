"""Shared variables of classes, which nobody constructs or destroys, and other declarations that clang takes less of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, compile_image, rig

SOURCE = r"""
struct Guard {
    int x;
    __device__ ~Guard() { x = -1; }
};
template <class T> struct Box { T inner[2]; }; // has a destructor by its member
struct Policy {
    struct { int threads; } block;
};
constexpr Policy policy(int n) { return Policy{{n * 32}}; }

template <int N> __global__ void __launch_bounds__(int(policy(N).block.threads), 2) f(int *out) {
    __shared__ Guard some[N], one;
    __shared__ Box<Guard> first;
    __shared__ Box<int> plain;
    if (threadIdx.x == 0) {
        one.x = 5;
        for (int i = 0; i < N; i++) some[i].x = 10 * i;
        first.inner[1].x = 7;
        plain.inner[0] = 9;
    }
    __syncthreads();
    {
        Guard local{3}; // whose destructor runs
        out[4 + threadIdx.x] = local.x;
    }
    out[threadIdx.x] = threadIdx.x == 0 ? one.x : threadIdx.x == 1 ? some[N - 1].x
                     : threadIdx.x == 2 ? first.inner[1].x : plain.inner[0];
}
template __global__ void f<3>(int *);

struct Watched {
    int *place;
    __device__ ~Watched() { *place = 8; }
};
__global__ void destroys(int *out) { Watched watched{out}; }
"""


def test_shared_objects_have_no_destructors() -> None:
    with rig(pes=1) as gpu:
        functions = gpu.load(SOURCE).functions
        assert [function.max_threads for function in functions if function.short_name == "f"] == [96]
        out = gpu.array(8, np.int32)
        gpu.launch("f", 1, 4, out)
        assert out.tolist() == [5, 20, 7, 9, 3, 3, 3, 3]


def test_alignment_behind_the_keyword() -> None:
    with rig(pes=1) as gpu:
        gpu.load(r"""
struct alignas(8) Pair { float x, y; };
extern __shared__ alignas(32) unsigned char rest[];
__global__ void f(int *out) {
    __shared__ char byte;
    __shared__ alignas(64) char wide[3];
    static __shared__ alignas(Pair) char pair[sizeof(Pair)];
    alignas(32) float local[2] = {1, 2};
    byte = 1;
    const void *all[] = {wide, pair, rest, local};
    const int sizes[] = {64, 8, 32, 32};
    for (int i = 0; i < 4; i++) out[i] = (unsigned long long)all[i] % sizes[i] + byte;
}
""")
        out = gpu.array(4, np.int32)
        gpu.launch("f", 1, 1, out, shared=64)
        assert out.tolist() == [1, 1, 1, 1]


def test_device_beside_shared_changes_nothing() -> None:
    """Both orders, in a macro and with other words between; functions of the device stay such."""
    with rig(pes=1) as gpu:
        gpu.load(r"""
#define SHARED __device__ /* and */ __shared__
#define DEVICE __device__
DEVICE int one() { return 1; }
__device__ int turned(int x) { __shared__ int kept[4]; kept[x] = x; __syncthreads(); return kept[3 - x]; }
__global__ void f(int *out) {
    SHARED int a[4];
    __shared__ __device__ int b[4];
    static __device__ volatile __shared__ int c[4];
    int t = threadIdx.x;
    a[t] = t, b[t] = 2 * t, c[t] = 3 * t;
    __syncthreads();
    out[t] = a[3 - t] * 100 + b[3 - t] * 10 + c[3 - t] + one() - 1 + turned(t) * 1000;
}
""")
        out = gpu.array(4, np.int32)
        gpu.launch("f", 1, 4, out)
        assert out.tolist() == [3369, 2246, 1123, 0]


def test_other_objects_have_destructors() -> None:
    with rig(pes=1) as gpu:
        gpu.load(SOURCE)
        out = gpu.array(1, np.int32)
        gpu.launch("destroys", 1, 1, out)
        assert out[0] == 8


@pytest.mark.parametrize("size", ["", "[2]"])
def test_shared_object_that_needs_its_constructor_is_refused(size: str) -> None:
    source = f"struct A {{ int x = 3; }};\n__global__ void f(int *out) {{ __shared__ A a{size}; *out = 1; }}\n"
    with pytest.raises(CompileError, match=r"source.cu:2:.*: error: initialization is not supported for __shared__"):
        compile_image(source)
