"""Warnings of programs that are right only if the lanes of a warp go in step."""

from __future__ import annotations

import re

import pytest

from tests.unit.cpu_rig import compile_image

WARNING = re.compile(
    r"source\.cu:(\d+):\d+: warning: reads what other threads of the warp write to '([^']+)' at line (\d+)"
)

RELIES_ON_STEPS = {
    "tail of a reduction": """
if (t < 32) {
    s[t] += s[t + 32];
    s[t] += s[t + 16]; // read
    s[t] += s[t + 8]; // write
}""",
    "reversed without a wait": """
s[t] = t; // write
o[t] = s[31 - t]; // read""",
    "read, then written": """
int v = s[t ^ 1]; // read
s[t] = v; // write""",
    "loop without a wait": """
#pragma unroll 1
for (int h = 16; h > 0; h >>= 1)
    if (t < h) s[t] += s[t + h]; // read, write""",
    "read by the next iteration": """
#pragma unroll 1
for (int i = 0; i < n; i++) {
    o[t] = s[t + 1]; // read
    __syncthreads();
    s[t] = o[t + i]; // write
}""",
    "in a function": """
put(s, t, n);
o[t] = s[t + 1]; // read""",
}

RIGHT = {
    "reduction": """
for (int h = 32; h > 0; h >>= 1) {
    if (t < h) s[t] += s[t + h];
    __syncthreads();
}""",
    "tail with half of the lanes": """
if (t < 32) { s[t] += s[t + 32]; __syncwarp(); }
if (t < 16) { s[t] += s[t + 16]; __syncwarp(); }
if (t < 8) s[t] += s[t + 8];""",
    "volatile tail": """
volatile int *v = s;
if (t < 32) { v[t] += v[t + 32]; v[t] += v[t + 16]; v[t] += v[t + 8]; }""",
    "own element": "s[t] = n; o[t] = s[t]; s[t] = o[t];",
    "same value by all": "s[0] = n; o[t] = s[0];",
    "disjoint halves": "s[t] = n; o[t] = s[t + 32];",
    "wait on one way": """
s[t] = o[t];
if (n) __syncwarp();
o[t] = s[t ^ 1];""",
    "shuffle between": """
s[t] = o[t];
o[t] = __shfl_xor_sync(~0u, n, 1) + s[t ^ 1];""",
    "atomics": "atomicAdd(&s[t & 7], 1); atomicAdd(&s[t & 3], 1);",
    "never both": """
if (n) s[t] = o[t];
if (!n) o[t] = s[t ^ 1];""",
    "unknown lanes": """
if (o[t]) { s[t] = n; o[t] = s[t ^ 1]; }""",
    "rows of a block of 16": """
__shared__ int m[16][16];
m[0][t] = n;
o[t] = m[1][t & 1];""",
    "loop of one round": """
for (int i = 1; i < 15; i++) {
    if (t > i)
        for (int j = 0; j < i; j++) s[16 * (i + 1) + t] -= s[16 * (i + 1) + j];
    __syncthreads();
}""",
}


def kernel(body: str) -> str:
    return f"""
__device__ void put(int *s, int t, int v) {{
    s[t] = v + t; // put
}}
extern "C" __global__ void k(int *o, int n) {{
    __shared__ int s[512];
    int t = threadIdx.x;
    s[t + 256] = o[t];
    __syncthreads();
{body}
    __syncthreads();
    o[t] = s[t];
}}
"""


def found(source: str, *options: str) -> set[tuple[int, int]]:
    """Lines of the read and the write in each warning."""
    return {(int(read), int(write)) for read, name, write in WARNING.findall(compile_image(source, options)[1])}


def lines_of(source: str, mark: str) -> set[int]:
    return {number for number, line in enumerate(source.splitlines(), 1) if mark in line.partition("//")[2]}


@pytest.mark.parametrize("name", RELIES_ON_STEPS)
def test_both_lines_are_named(name: str) -> None:
    source = kernel(RELIES_ON_STEPS[name])
    pairs = found(source)
    reads, writes = lines_of(source, "read"), lines_of(source, "write") or lines_of(source, "put")
    assert any(read in reads and write in writes for read, write in pairs), pairs


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_not_warned_of(name: str) -> None:
    assert found(kernel(RIGHT[name])) == set()


def test_programs_in_lockstep_and_silent_ones_are_not_warned_of() -> None:
    source = kernel(RELIES_ON_STEPS["tail of a reduction"])
    assert found(source, "--lockstep") == set()
    assert found(source, "-w") == set()


def test_each_pair_of_lines_is_told_once() -> None:
    body = RELIES_ON_STEPS["reversed without a wait"]
    source = f"""
template <int N> __global__ void k(int *o) {{ __shared__ int s[N]; int t = threadIdx.x;
{body}
}}
template __global__ void k<32>(int *); template __global__ void k<64>(int *);"""
    assert len(WARNING.findall(compile_image(source)[1])) == 1
