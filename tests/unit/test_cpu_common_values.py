"""Values that all threads have in common behind a wait are read once for all of them: only where that is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, rig

THREADS = 70
MODULUS = 1 << 32

SOURCE = r"""
#define MIX(value) sum = sum * 31 + (value)

extern "C" __global__ void counter(int rounds, unsigned *out) {
    __shared__ unsigned cells[128];
    unsigned sum = threadIdx.x;
    for (int round = 0; round < rounds; round++) {
        cells[threadIdx.x] = sum;
        __syncthreads();
        MIX(cells[(threadIdx.x + round) % blockDim.x]);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void later_threads(int rounds, unsigned *out) { /* thread 0 has ended */
    unsigned sum = threadIdx.x;
    if (threadIdx.x < 37)
        return;
    for (int round = 0; round < rounds; round++) {
        MIX(round);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void different_rounds(int rounds, unsigned *out) { /* of inner and outer loops, as many barriers */
    unsigned sum = threadIdx.x, odd = threadIdx.x % 2;
    for (int outer = 0; outer < (odd ? rounds : rounds + 1); outer++)
        for (int inner = 0; inner < (odd ? rounds + 1 : rounds); inner++) {
            MIX(outer * 10 + inner);
            __syncthreads();
        }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void skipped(int rounds, unsigned *out) { /* each thread skips a third of the barriers */
    unsigned sum = threadIdx.x;
    for (int round = 0; round < 3 * rounds; round++) {
        if ((round + threadIdx.x) % 3 == 0)
            continue;
        MIX(round);
        __syncthreads();
        MIX(round);
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void two_barriers(int rounds, unsigned *out) {
    unsigned sum = threadIdx.x;
    for (int round = 0; round < rounds; round++) {
        if (threadIdx.x % 2) {
            MIX(1);
            __syncthreads();
        } else {
            MIX(2);
            __syncthreads();
        }
        MIX(round);
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void chosen_by_thread(int rounds, unsigned *out) {
    unsigned sum = threadIdx.x, factor;
    if (threadIdx.x < 5) {
        factor = out[0] + 3 * rounds;
    } else {
        factor = out[1] * 5 + rounds;
    }
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        MIX(factor + round);
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void chosen_by_all(int rounds, unsigned *out) {
    unsigned sum = threadIdx.x, factor = rounds;
    for (int round = 0; round < rounds; round++) {
        if (round % 2)
            factor = factor * 3 + blockDim.x;
        else
            factor += 7;
        __syncthreads();
        MIX(factor);
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void halves(int rounds, unsigned *out) { /* of warps, each with a mask and rounds of its own */
    unsigned low = threadIdx.x % 32 < 16, mask = low ? 0xffff : 0xffff0000, sum = threadIdx.x;
    for (int round = 0; round < rounds; round++)
        MIX(__shfl_sync(mask, round, threadIdx.x));
    mask = ~0u;
    for (int round = 0; round < rounds; round++)
        MIX(__shfl_sync(mask, round, threadIdx.x) + __any_sync(~0u, round == 1));
    out[threadIdx.x] = sum;
}
extern "C" __global__ void meeting(int rounds, unsigned *out) { /* masks meet in different rounds */
    unsigned low = threadIdx.x % 32 < 16, sum = threadIdx.x;
    for (int round = 0; round < rounds + low; round++)
        MIX(__shfl_sync(low && round == 0 ? 0xffffu : ~0u, round, 31));
    out[threadIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def _mixed(thread: int, *values: int) -> int:
    total = thread
    for value in values:
        total = (total * 31 + value) % MODULUS
    return total


def _check(gpu: Rig, kernel: str, rounds: int, threads: int, expected: Callable[[int], int | None]) -> None:
    out = gpu.array(threads, np.uint32)
    gpu.launch(kernel, 1, threads, np.int32(rounds), out)
    assert out.tolist() == [expected(thread) or 0 for thread in range(threads)]


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_counter_of_a_loop_with_barriers(gpu: Rig, rounds: int) -> None:
    sums = list(range(THREADS))
    for turn in range(rounds):
        sums = [(own * 31 + sums[(thread + turn) % THREADS]) % MODULUS for thread, own in enumerate(sums)]
    _check(gpu, "counter", rounds, THREADS, lambda thread: sums[thread])


def test_counter_when_the_first_threads_have_ended(gpu: Rig) -> None:
    _check(gpu, "later_threads", 6, THREADS, lambda thread: _mixed(thread, *range(6)) if thread >= 37 else None)


def test_threads_at_one_barrier_in_different_rounds(gpu: Rig) -> None:
    def expected(thread: int) -> int:
        outer, inner = (3, 4) if thread % 2 else (4, 3)
        return _mixed(thread, *(a * 10 + b for a in range(outer) for b in range(inner)))

    _check(gpu, "different_rounds", 3, THREADS, expected)


def test_threads_that_skip_barriers(gpu: Rig) -> None:
    def expected(thread: int) -> int:
        return _mixed(thread, *(turn for turn in range(12) if (turn + thread) % 3 for _ in range(2)))

    _check(gpu, "skipped", 4, THREADS, expected)


def test_threads_at_two_barriers_of_one_round(gpu: Rig) -> None:
    def expected(thread: int) -> int:
        return _mixed(thread, *(value for turn in range(4) for value in (1 if thread % 2 else 2, turn)))

    _check(gpu, "two_barriers", 4, THREADS, expected)


def test_value_that_threads_choose(gpu: Rig) -> None:
    def expected(thread: int) -> int:
        factor = 12 if thread < 5 else 4
        return _mixed(thread, *(factor + turn for turn in range(4)))

    _check(gpu, "chosen_by_thread", 4, THREADS, expected)


def test_value_that_all_choose(gpu: Rig) -> None:
    factors = [5]
    for turn in range(5):
        factors.append(factors[-1] * 3 + THREADS if turn % 2 else factors[-1] + 7)
    _check(gpu, "chosen_by_all", 5, THREADS, lambda thread: _mixed(thread, *factors[1:]))


def test_warp_operations_of_halves_and_of_all(gpu: Rig) -> None:
    values = [0, 1, 2, 3, 0, 2, 2, 3]
    _check(gpu, "halves", 4, 64, lambda thread: _mixed(thread, *values))


def test_masks_that_meet_in_different_rounds(gpu: Rig) -> None:
    def expected(thread: int) -> int:
        low = thread % 32 < 16
        return _mixed(thread, *((0, 0, 1, 2) if low else (0, 1, 2)))

    _check(gpu, "meeting", 3, 32, expected)
