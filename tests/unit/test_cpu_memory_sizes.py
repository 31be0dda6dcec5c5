"""Local and constant memory of kernels on the software GPU, as attributes of functions tell them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.fakes.units import Unit
from tests.unit.cpu_rig import rig

SOURCE: Final = r"""
__constant__ float weights[10];
__constant__ const int known[2] = {1, 2};
static __constant__ char own[3];
__device__ int plain[100];
__global__ void nothing() {}
__global__ void numbers(int *p) { int a = p[0], b[2] = {a, 1}; p[1] = b[0] + b[1]; }
__global__ void arrays(int *p)
{
    int a[50];
    for (int i = 0; i < 50; i++)
        a[p[i] % 50] = p[i + 50];
    for (int i = 0; i < 50; i++)
        p[i] = a[p[i + 100] % 50];
}
__device__ __noinline__ int deep(int *p)
{
    double a[16];
    for (int i = 0; i < 16; i++)
        a[p[i] & 15] = p[i + 1];
    return (int)a[p[5] & 15];
}
__device__ int again(int *p, int n)
{
    volatile int a[8];
    a[n & 7] = n;
    return n < 2 ? a[p[n] & 7] : again(p, n - 1) * again(p, n - 2) + a[p[n] & 7];
}
__global__ void recurses(int *p) { p[0] = again(p, p[1]); }
__global__ void calls(int *p)
{
    int a[20];
    for (int i = 0; i < 20; i++)
        a[p[i] % 20] = i;
    p[0] = deep(p) + a[p[1] % 20] + known[p[3]] + own[p[4]] + (int)weights[p[5]] + plain[p[6]];
}
"""
PTX: Final = """
.version 8.0
.target sm_80
.address_size 64
.const .align 8 .f64 table[5] = {1.0, 2.0, 3.0};
.global .align 8 .f64 other[7];
.visible .entry kernel(.param .u64 p)
{
    .local .align 4 .b8 depot[400];
    .reg .b64 %rd<9>;
    .reg .b32 %r<9>;
    ld.param.u64 %rd1, [p];
    ld.global.u32 %r1, [%rd1];
    mul.wide.u32 %rd2, %r1, 4;
    mov.u64 %rd3, depot;
    add.s64 %rd4, %rd3, %rd2;
    st.local.u32 [%rd4], %r1;
    ld.global.u32 %r2, [%rd1+4];
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd3, %rd5;
    ld.local.u32 %r3, [%rd6];
    st.global.u32 [%rd1], %r3;
    ret;
}
"""


def test_variables_that_are_no_registers_are_local_memory() -> None:
    with rig(pes=1) as gpu:
        sizes = {function.short_name: function.local_bytes for function in gpu.load(SOURCE).functions}
    assert sizes == {"nothing": 0, "numbers": 0, "arrays": 200, "calls": 80 + 16 * 8, "recurses": 32}


@pytest.mark.parametrize("options", [(), ("--memcheck",), ("--lockstep",)], ids=["plain", "checked", "lockstep"])
def test_constant_memory_is_the_programs(options: tuple[str, ...]) -> None:
    with rig(pes=1) as gpu:
        assert gpu.load(SOURCE, options).constant_bytes == 40 + 8 + 3
        assert gpu.load("__device__ int x[9]; __global__ void k() { x[0] = 1; }", options).constant_bytes == 0


def test_ptx_tells_both() -> None:
    with rig(pes=1) as gpu:
        program = gpu.load_ptx(PTX)
    assert (program.constant_bytes, [function.local_bytes for function in program.functions]) == (40, [400])


def test_units_share_constant_memory() -> None:
    source = "extern __constant__ float weights[10]; __global__ void reads(float *p) { *p = weights[1]; }"
    with rig(pes=1) as gpu:
        assert gpu.link(Unit("a.cu", SOURCE), Unit("b.cu", source)).constant_bytes == 40 + 8 + 3
