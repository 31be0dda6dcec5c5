"""Barrier objects of inline PTX on the CPU engine, and threads that wait for others of their block in loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig
from virtio_proto.schema import Status

SOURCE = r"""
#define EXPORT extern "C" __global__ void
typedef unsigned long long u64;
__device__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64 *b, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(b)), "r"(count) : "memory");
}
__device__ u64 arrive(u64 *b, unsigned count = 1) {
    u64 state;
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], %2;" : "=l"(state) : "r"(address(b)), "r"(count) : "memory");
    return state;
}
__device__ bool test(u64 *b, u64 state) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(address(b)), "l"(state) : "memory");
    return done;
}
__device__ bool test_parity(u64 *b, unsigned parity) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(address(b)), "r"(parity) : "memory");
    return done;
}
__device__ void wait(u64 *b, unsigned parity) { // as libraries write it
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, 0x989680;\n"
                 "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" :: "r"(address(b)), "r"(parity) : "memory");
}
__device__ unsigned pending(u64 state) {
    unsigned count;
    asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
}

EXPORT one_thread(unsigned *out) { // all operations, in order
    __shared__ u64 b;
    init(&b, 5);
    const u64 first = arrive(&b);
    out[0] = pending(first);
    out[1] = test(&b, first);
    u64 state;
    asm volatile("mbarrier.arrive.noComplete.release.cta.shared.b64 %0, [%1], 2;" : "=l"(state) : "r"(address(&b)) : "memory");
    out[2] = pending(state);
    asm volatile("mbarrier.arrive.b64 _, [%0];" :: "l"(&b) : "memory"); // a generic address
    out[3] = test(&b, first);
    out[4] = test_parity(&b, 0);
    out[5] = test_parity(&b, 1); // of the phase before the first
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(address(&b)) : "memory");
    out[6] = test(&b, first); // the first phase is complete
    out[7] = test_parity(&b, 0);
    const u64 second = arrive(&b, 3);
    out[8] = pending(second); // four arrivals are expected now
    out[9] = test(&b, second);
    arrive(&b);
    out[10] = test(&b, second);
    out[11] = test_parity(&b, 0); // complete in the phase before last
    asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(address(&b)) : "memory");
}
EXPORT bytes(unsigned *out) { // a phase waits for bytes, too
    __shared__ u64 b;
    u64 state;
    init(&b, 2);
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], 96;" : "=l"(state) : "r"(address(&b)) : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 32;" :: "r"(address(&b)) : "memory");
    arrive(&b);
    out[0] = test(&b, state);
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 100;" :: "r"(address(&b)) : "memory");
    out[1] = test(&b, state);
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 28;" :: "r"(address(&b)) : "memory");
    out[2] = test(&b, state);
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(address(&b)) : "memory"); // before they are expected
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], 2;" :: "r"(address(&b)) : "memory");
    out[3] = test_parity(&b, 1);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(address(&b)) : "memory");
    out[4] = test_parity(&b, 1);
}
EXPORT rounds(int *out, int turns) {
    __shared__ u64 b;
    __shared__ int cells[1024];
    const int t = threadIdx.x, size = blockDim.x;
    if (t == 0) init(&b, size);
    __syncthreads();
    for (int turn = 0; turn < turns; turn++) {
        cells[t] = t + turn;
        u64 state = arrive(&b);
        while (!test(&b, state)) {}
        out[turn * size + t] = cells[(t + 1) % size];
        arrive(&b);
        wait(&b, 1);
    }
}
EXPORT copies(const int *in, int *out) { // cp.async that arrives, with and without an arrival of its own
    __shared__ __align__(16) int cells[4 * 64];
    __shared__ u64 b;
    const int t = threadIdx.x;
    if (t == 0) init(&b, 128);
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address(&cells[4 * t])), "l"(in + 4 * t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(address(&b)) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(address(&b)) : "memory");
    arrive(&b);
    wait(&b, 0);
    for (int i = 0; i < 4; i++) out[64 * i + t] = cells[64 * i + 63 - t];
}
EXPORT chain(int *out) { // each warp waits for the one before, the first for the last
    __shared__ u64 b[8];
    __shared__ int sum;
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < warps; i++) init(&b[i], 32);
        sum = 0;
    }
    __syncthreads();
    for (int turn = 0; turn < 3; turn++) {
        if (warp != 0 || turn != 0) wait(&b[(warp + warps - 1) % warps], (warp ? turn : turn - 1) & 1);
        if (threadIdx.x % 32 == 7) {
            out[turn * warps + warp] = sum;
            sum += warp + 1;
        }
        __syncwarp();
        arrive(&b[warp]);
    }
}
EXPORT naps(int *out) { // threads that sleep until another has written
    __shared__ volatile int turn;
    if (threadIdx.x == 0) turn = blockDim.x - 1;
    __syncthreads();
    while (turn != threadIdx.x) __nanosleep(20);
    out[threadIdx.x] = 2 * threadIdx.x;
    turn = threadIdx.x - 1;
}
EXPORT naps_for_another_block(volatile int *flag) {
    if (blockIdx.x == 0) __trap();
    while (*flag == 0) __nanosleep(20);
}
EXPORT naps_of_ptx(int *out) { // some threads are at a barrier, some have ended
    __shared__ volatile int ready;
    const int t = threadIdx.x;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t % 3 == 1) return;
    if (t % 3 == 0)
        while (ready < 10) asm volatile("nanosleep.u32 100;" ::: "memory");
    else
        atomicAdd((int *)&ready, 1);
    const unsigned most = __ballot_sync(__activemask(), 1);
    __syncthreads();
    out[t] = ready + (most == 0);
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=1) as made:
        made.load(SOURCE)
        yield made


def test_operations_of_one_thread(gpu: Rig) -> None:
    out = gpu.array(12, np.uint32)
    gpu.launch("one_thread", 1, 1, out)
    assert out.tolist() == [5, 0, 4, 0, 0, 1, 1, 1, 4, 0, 1, 0]


def test_bytes_are_waited_for(gpu: Rig) -> None:
    out = gpu.array(5, np.uint32)
    gpu.launch("bytes", 1, 1, out)
    assert out.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize("size", [1, 32, 48, 250, 1024])
def test_block_waits(gpu: Rig, size: int) -> None:
    out = gpu.array((5, size), np.int32)
    gpu.launch("rounds", 1, size, out, np.int32(5))
    assert (out == (np.arange(size) + 1) % size + np.arange(5)[:, None]).all()


def test_copies_arrive(gpu: Rig) -> None:
    values, out = gpu.array(256, np.int32, np.arange(256)), gpu.array((4, 64), np.int32)
    gpu.launch("copies", 1, 64, values, out)
    assert (out == values.reshape(4, 64)[:, ::-1]).all()


@pytest.mark.parametrize("warps", [2, 8])
def test_warps_wait_for_one_another(gpu: Rig, warps: int) -> None:
    out = gpu.array(3 * warps, np.int32)
    gpu.launch("chain", 1, 32 * warps, out)
    added = np.tile(np.arange(1, warps + 1), 3)
    assert (out == added.cumsum() - added).all()


@pytest.mark.parametrize("size", [1, 32, 77])
def test_sleeping_threads_let_others_go_on(gpu: Rig, size: int) -> None:
    out = gpu.array(size, np.int32)
    gpu.launch("naps", 2, size, out)
    assert (out == 2 * np.arange(size)).all()


def test_sleeping_threads_beside_waiting_and_ended_ones(gpu: Rig) -> None:
    out = gpu.array(32, np.int32, -1)
    gpu.launch("naps_of_ptx", 1, 32, out)
    assert out.tolist() == [-1 if t % 3 == 1 else 10 for t in range(32)]


def test_launches_end_while_threads_sleep(gpu: Rig) -> None:
    with pytest.raises(LaunchError) as caught:
        gpu.launch("naps_for_another_block", 64, 32, gpu.array(1, np.int32))
    assert caught.value.status is Status.FAULT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mbarrier.frob.b64 [%0];", "'mbarrier.frob.b64' is not known"),
        ("mbarrier.init.shared.b64 [%0];", "it has 1 operands, 2 to 2 are possible"),
        ("mbarrier.try_wait.phase_type::primary.shared.b64 p, [%0], 1;", "'.phase_type::primary' is not known here"),
        ("cp.async.mbarrier.arrive.shared.b32 [%0];", "expected one of .b64"),
    ],
)
def test_error_names_the_instruction(text: str, problem: str) -> None:
    source = f'extern "C" __global__ void f(int *x) {{ asm volatile("{{ .reg .pred p; {text} }}" :: "l"(x)); }}'
    with pytest.raises(CompileError) as caught:
        compile_image(source)
    assert problem in str(caught.value)
