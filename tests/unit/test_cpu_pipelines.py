"""Headers of pipelines (`cuda_pipeline.h`), copies to shared memory that a thread commits and waits for, and of barriers
in shared memory (`cuda_awbarrier.h`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import Rig, compile_image, rig

SOURCE = r"""
#include <cuda_awbarrier.h>
#include <cuda_pipeline.h>

/* Threads of the upper half fill a tile, those of the lower half read it. */
extern "C" __global__ void handed_over(int *out, unsigned *pending) {
    using nvcuda::experimental::awbarrier;
    __shared__ awbarrier full, empty;
    __shared__ int tile[32];
    int x = threadIdx.x, lane = x % 32;
    if (x == 0) {
        init(&full, blockDim.x);
        nvcuda::experimental::init(&empty, 64);
    }
    __syncthreads();
    for (int round = 0; round < 8; round++) {
        if (x >= 32) {
            tile[lane] = 100 * round + lane;
            full.arrive();
            empty.arrive_and_wait();
        } else {
            awbarrier::arrival_token token = full.arrive();
            if (round == 0)
                pending[x] = token.pending_count();
            while (!full.try_wait(token, 100)) {
            }
            out[round * 32 + lane] = tile[31 - lane];
            empty.wait(empty.arrive());
        }
    }
    __syncthreads();
    if (x == 0)
        inval(&full);
}

extern "C" __global__ void dropped(int *out) {
    __shared__ __mbarrier_t barrier;
    __shared__ int sum;
    int x = threadIdx.x;
    if (x == 0) {
        __mbarrier_init(&barrier, blockDim.x);
        sum = 0;
    }
    __syncthreads();
    atomicAdd(&sum, x);
    if (x >= 16) {
        __mbarrier_arrive_and_drop(&barrier);
        return;
    }
    __mbarrier_arrive(&barrier);
    while (!__mbarrier_test_wait_parity(&barrier, false)) {
    }
    out[x] = sum;
    __mbarrier_token_t token = __mbarrier_arrive(&barrier);
    while (!__mbarrier_test_wait(&barrier, token)) {
    }
    out[16 + x] = __mbarrier_try_wait_parity(&barrier, true, 1u << 30) && !__mbarrier_try_wait_parity(&barrier, false, 10);
}

extern "C" __global__ void reversed(const int *in, int *out, int rounds) {
    __shared__ int tiles[2][64];
    int x = threadIdx.x;
    __pipeline_memcpy_async(&tiles[0][x], &in[x], sizeof(int));
    __pipeline_commit();
    for (int round = 0; round < rounds; round++) {
        if (round + 1 < rounds)
            __pipeline_memcpy_async(&tiles[(round + 1) % 2][x], &in[(round + 1) * 64 + x], sizeof(int));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[round * 64 + x] = tiles[round % 2][63 - x];
        __syncthreads();
    }
}

extern "C" __global__ void padded(const uint4 *in, uint4 *out, uint2 *pairs) {
    __shared__ uint4 tile[32];
    __shared__ uint2 halves[32];
    int x = threadIdx.x;
    __pipeline_memcpy_async(&tile[x], &in[x], 16, x % 4 * 4);
    __pipeline_memcpy_async(&halves[x], &in[x], 8);
    __pipeline_wait_prior(0);
    out[x] = tile[x], pairs[x] = halves[x];
}

extern "C" __global__ void batches(const double2 *in, double2 *out, int *numbers) {
    __shared__ double2 tile[32];
    nvcuda::experimental::pipeline pipe;
    nvcuda::experimental::memcpy_async(tile[threadIdx.x], in[threadIdx.x], pipe);
    numbers[2 * threadIdx.x] = pipe.commit();
    numbers[2 * threadIdx.x + 1] = pipe.commit();
    pipe.wait_prior<0>();
    pipe.wait(1);
    out[threadIdx.x] = tile[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def test_two_stages_take_turns(gpu: Rig) -> None:
    values, out = gpu.array(320, np.int32, np.arange(320)), gpu.array(320, np.int32)
    gpu.launch("reversed", 1, 64, values, out, np.int32(5))
    assert (out.reshape(5, 64) == np.arange(320).reshape(5, 64)[:, ::-1]).all()


def test_end_of_a_copy_is_filled_with_zeroes(gpu: Rig) -> None:
    values = gpu.array((32, 4), np.uint32, np.arange(1, 129).reshape(32, 4))
    out, pairs = gpu.array((32, 4), np.uint32), gpu.array((32, 2), np.uint32)
    gpu.launch("padded", 1, 32, values, out, pairs)
    kept = np.arange(4) < 4 - np.arange(32)[:, None] % 4
    assert (out == np.where(kept, values, 0)).all()
    assert (pairs == values[:, :2]).all()


def test_pipelines_number_their_batches(gpu: Rig) -> None:
    values, out = gpu.array(64, np.float64, np.arange(64)), gpu.array(64, np.float64)
    numbers = gpu.array(64, np.int32)
    gpu.launch("batches", 1, 32, values, out, numbers)
    assert (out == values).all()
    assert numbers.tolist() == [0, 1] * 32


def test_readers_and_writers_meet_at_barriers(gpu: Rig) -> None:
    out, pending = gpu.array((8, 32), np.int32), gpu.array(32, np.uint32)
    gpu.launch("handed_over", 1, 64, out, pending)
    assert (out == 100 * np.arange(8)[:, None] + np.arange(32)[::-1]).all()
    assert set(pending) <= set(range(1, 65))
    assert len(set(pending)) == 32


def test_threads_leave_a_barrier_for_good(gpu: Rig) -> None:
    out = gpu.array(32, np.int32)
    gpu.launch("dropped", 1, 64, out)
    assert out.tolist() == [sum(range(64))] * 16 + [1] * 16


@pytest.mark.parametrize(
    "header",
    [
        "cuda_awbarrier_primitives.h",
        "cuda_pipeline_primitives.h",
        "sm_20_intrinsics.h",
        "sm_32_atomic_functions.h",
        "sm_35_atomic_functions.h",
        "device_atomic_functions.hpp",
        "math_functions.hpp",
        "vector_functions.hpp",
        "crt/host_defines.h",
        "crt/mma.h",
        "host_config.h",
        "driver_functions.h",
        "cuda_texture_types.h",
        "cuda_fp8.hpp",
        "curand_discrete.h",
    ],
)
def test_headers_can_be_included(header: str) -> None:
    compile_image(f"#include <{header}>\n__global__ void k(int *out) {{ *out = 0; }}")
