"""Code that one thread of a row runs is taken out of the loop over threads: only where that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_code import kernel_code, llvm_code
from tests.unit.cpu_rig import Rig, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
__device__ int datum, flags[128];
EXPORT equal(int who, const float *__restrict__ in, float *__restrict__ out, float *__restrict__ one) {
    int x = threadIdx.x;
    out[x] = in[x] * 2.0f;
    if (x == who) one[blockIdx.x] = in[x] + 1.0f;
}
EXPORT unequal(int who, const float *__restrict__ in, float *__restrict__ out, float *__restrict__ one) {
    int x = threadIdx.x;
    out[x] = in[x] * 2.0f;
    if (x != who) return;
    one[blockIdx.x] = in[max(x - 1, 0)] + in[min(x + 1, (int)blockDim.x - 1)];
}
EXPORT guarded(int n, int who, const float *__restrict__ in, float *__restrict__ out, float *__restrict__ one) {
    int x = threadIdx.x;
    if (x >= n) return;
    out[x] = in[x] * 2.0f;
    if (x == who) one[blockIdx.x] = n / (who + 1);
}
EXPORT twice(int first, int second, float *one) { /* which may be the same: in this order */
    int x = threadIdx.x;
    if (x == first) one[0] = 1.0f;
    if (x == second) one[0] = one[0] * 10.0f + 2.0f;
}
EXPORT read_again(int who, float *out) { /* what follows reads what the lone thread has stored */
    int x = threadIdx.x;
    float *mine = out + x;
    if (x == who) out[who] = 5.0f;
    *mine = *mine + 1.0f;
}
EXPORT overwritten(int who, float *out) {
    int x = threadIdx.x;
    if (x == who) out[who] = 5.0f;
    out[x] = x;
}
EXPORT value_of_memory(int who, float *out, float *one) { /* in[x] has changed when the loop is over */
    int x = threadIdx.x;
    float before = out[x];
    out[x] = before + 1.0f;
    if (x == who) one[0] = before;
}
EXPORT counted(int who, unsigned *one) {
    int x = threadIdx.x;
    if (x == who) atomicAdd(one, 3u);
}
EXPORT published(int who) { /* who sees a flag sees the datum */
    int x = threadIdx.x;
    if (x == who) datum = 42;
    __atomic_store_n(&flags[x], 1, __ATOMIC_RELEASE);
}
EXPORT used_later(int who, int *out) {
    int x = threadIdx.x, value = 7;
    if (x == who) {
        value = flags[x];
        datum = value + 1;
    }
    out[x] = value + x;
}
EXPORT branches(const int *__restrict__ in, int *__restrict__ out) {
    int x = threadIdx.x;
    switch (in[x] % 7) {
    case 0: out[x] = 10; break;
    case 1:
    case 3: out[x] = x; break;
    case 5: out[x] += 7; /* falls through */
    case 6: out[x] *= 3; break;
    }
    switch (x) {
    case 2: out[100] = x; break;
    case 40: out[101] = x; break;
    }
}
EXPORT ends_alike(int n, const float *__restrict__ in, float *__restrict__ out, float *__restrict__ rim) {
    int x = threadIdx.x;
    out[x] = in[x] * 2.0f;
    if (x == 0) rim[blockIdx.x * 3] = in[max(x - 1, 5)];
    if (x == 15) rim[blockIdx.x * 3 + 1] = in[min(x + 1, n)];
    if (x == 40) rim[blockIdx.x * 3 + 2] = in[min(x + 2, n)];
}
EXPORT strided(int n, const float *__restrict__ in, float *__restrict__ out) { out[threadIdx.x] = in[(int)threadIdx.x * n]; }
"""
FIRST_OF_GRID = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry first_of_grid(.param .u64 in, .param .u64 out, .param .u64 one)
{
    .reg .b32 i, block, threads, thread;
    .reg .b64 from, to, first, from_i;
    .reg .f32 x;
    .reg .pred p;
    ld.param.u64 from, [in];
    ld.param.u64 to, [out];
    ld.param.u64 first, [one];
    mov.u32 block, %ctaid.x;
    mov.u32 threads, %ntid.x;
    mov.u32 thread, %tid.x;
    mad.lo.s32 i, block, threads, thread;
    mad.wide.s32 from_i, i, 4, from;
    ld.global.nc.f32 x, [from_i];
    add.f32 x, x, x;
    mad.wide.s32 to, i, 4, to;
    st.global.f32 [to], x;
    setp.ne.s32 p, i, 0;
    @p ret;
    ld.global.nc.f32 x, [from+4];
    st.global.f32 [first], x;
    ret;
}
"""
"""LLVM makes (blockIdx * blockDim | threadIdx) == 0 of blockIdx * blockDim + threadIdx == 0."""
THREADS = 70


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load(SOURCE)
        yield made


@pytest.mark.parametrize("who", [0, 1, 15, 16, 69, 70, -1, -(1 << 31)])
@pytest.mark.parametrize("name", ["equal", "unequal", "guarded"])
def test_lone_thread_stores_once(gpu: Rig, name: str, who: int) -> None:
    values = np.arange(THREADS, dtype=np.float32) * 3
    out, one = gpu.array(THREADS, np.float32, -1), gpu.array(3, np.float32, -1)
    number = [np.int32(50)] if name == "guarded" else []
    gpu.launch(name, 3, THREADS, *number, np.int32(who), gpu.array(THREADS, np.float32, values), out, one)
    threads = 50 if name == "guarded" else THREADS
    assert out.tolist() == [*(values[:threads] * 2), *[-1] * (THREADS - threads)]
    expected = -1.0
    if 0 <= who < threads:
        neighbours = values[max(who - 1, 0)] + values[min(who + 1, THREADS - 1)]
        expected = {"equal": values[who] + 1, "unequal": neighbours, "guarded": 50 // (who + 1)}[name]
    assert one.tolist() == [expected] * 3


@pytest.mark.parametrize(("second", "expected"), [(4, 12), (5, None)])
def test_code_of_two_lone_threads_keeps_its_order(gpu: Rig, second: int, expected: int | None) -> None:
    one = gpu.array(1, np.float32)
    gpu.launch("twice", 1, THREADS, np.int32(4), np.int32(second), one)
    if expected is not None:
        assert one[0] == expected
    else:
        assert one[0] in (1, 12)  # two threads without a barrier


@pytest.mark.parametrize("who", [0, 33, 69])
def test_code_that_its_own_thread_depends_on_stays(gpu: Rig, who: int) -> None:
    out = gpu.array(THREADS, np.float32)
    gpu.launch("read_again", 1, THREADS, np.int32(who), out)
    assert out.tolist() == [6.0 if x == who else 1.0 for x in range(THREADS)]
    gpu.launch("overwritten", 1, THREADS, np.int32(who), out)
    assert out.tolist() == list(range(THREADS))
    one = gpu.array(1, np.float32)
    gpu.launch("value_of_memory", 1, THREADS, np.int32(who), out, one)
    assert one[0] == who
    total = gpu.array(1, np.uint32)
    gpu.launch("counted", 5, THREADS, np.int32(who), total)
    assert total[0] == 15


def test_value_that_is_used_behind_the_code_stays(gpu: Rig) -> None:
    gpu.variable("flags").view(np.int32)[:] = np.arange(128) * 100
    out = gpu.array(THREADS, np.int32)
    gpu.launch("used_later", 1, THREADS, np.int32(33), out)
    assert out.tolist() == [3333 if x == 33 else 7 + x for x in range(THREADS)]
    assert gpu.variable("datum").view(np.int32).tolist() == [3301]


def test_release_stays_behind_what_it_publishes() -> None:
    code = kernel_code(llvm_code(SOURCE), "published")
    assert code.index("store i32 42") < code.index("store atomic i32 1")


def test_switches_of_few_cases(gpu: Rig) -> None:
    values = np.random.default_rng(1).integers(0, 100, THREADS).astype(np.int32)
    out = gpu.array(102, np.int32, 4)
    gpu.launch("branches", 1, THREADS, gpu.array(THREADS, np.int32, values), out)
    of_case = {0: 10, 5: 33, 6: 12}
    cases = [value % 7 for value in values.tolist()]
    expected = [x if case in (1, 3) else of_case.get(case, 4) for x, case in enumerate(cases)]
    assert out[:THREADS].tolist() == expected
    assert out[100:].tolist() == [2, 40]


@pytest.mark.parametrize("threads", [1, 15, 40, 41, 70])
def test_lone_threads_whose_code_ends_alike(gpu: Rig, threads: int) -> None:
    values = np.arange(THREADS, dtype=np.float32) * 3
    out, rim = gpu.array(THREADS, np.float32, -1), gpu.array(9, np.float32, -1)
    gpu.launch("ends_alike", 3, threads, np.int32(30), gpu.array(THREADS, np.float32, values), out, rim)
    assert out.tolist() == [*(values[:threads] * 2), *[-1] * (THREADS - threads)]
    assert rim.tolist() == [15, 48 if threads > 15 else -1, 90 if threads > 40 else -1] * 3


def test_first_thread_of_the_grid(gpu: Rig) -> None:
    values = np.arange(4 * 50, dtype=np.float32) * 3
    out, one = gpu.array(4 * 50, np.float32), gpu.array(1, np.float32, 10)
    gpu.load_ptx(FIRST_OF_GRID)
    gpu.launch("first_of_grid", 4, 50, gpu.array(4 * 50, np.float32, values), out, one)
    assert out.tolist() == (values * 2).tolist()
    assert one.tolist() == [3]


@pytest.mark.parametrize(
    ("name", "source", "kind"), [("ends_alike", SOURCE, "CUDA_SOURCE"), ("first_of_grid", FIRST_OF_GRID, "PTX")]
)
def test_code_of_lone_threads_is_taken_out_of_the_loop(name: str, source: str, kind: str) -> None:
    code = kernel_code(llvm_code(source, kind), name)
    assert "masked.scatter" not in code
    assert "x float> @llvm.masked.gather" not in code


@pytest.mark.parametrize("stride", [0, 1, 3, -2])
def test_stride_that_only_the_launch_knows(gpu: Rig, stride: int) -> None:
    values = np.arange(600, dtype=np.float32)
    data, out = gpu.array(600, np.float32, values), gpu.array(THREADS, np.float32)
    start = data[200:]
    gpu.launch("strided", 1, THREADS, np.int32(stride), start, out)
    assert out.tolist() == [200 + stride * x for x in range(THREADS)]
