"""Features of CUDA C in kernels of a few lines each, beside those of cpu_features.cu."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, compile_image, rig
from virtio_proto.schema import Status

SOURCE = r"""
#include <cuda_fp16.h>
#define EXPORT extern "C" __global__ void
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

EXPORT warp_exchange(int *out, int rounds) { // only __syncwarp stands between a lane and its neighbours' stores
    __shared__ volatile int cells[128];
    int t = threadIdx.x, warp = t & ~31;
    cells[t] = t;
    for (int r = 0; r < rounds; r++) {
        __syncwarp();
        int next = cells[warp + ((t + 1) & 31)];
        __syncwarp();
        cells[t] = next;
    }
    out[t] = cells[t];
}
EXPORT numbered_barriers(int *out, int count) {
    __shared__ int cells[64];
    int t = threadIdx.x;
    cells[t] = t;
    __barrier_sync(3);
    int other = cells[63 - t];
    __barrier_sync_count(1, count);
    cells[t] = other;
    __syncthreads();
    out[t] = cells[(t + 1) % 64];
}
EXPORT warp_exchange_of_some(int *out) {
    __shared__ volatile int cells[32];
    int t = threadIdx.x;
    cells[t] = -1;
    if (t % 2) {
        cells[t] = t;
        __syncwarp(0xaaaaaaaau);
        out[t] = cells[t ^ 2];
    } else {
        out[t] = 100;
    }
}

EXPORT tickets(unsigned *i, unsigned long long *l, int *seen) { // what an atomic returns
    atomicAdd(&seen[atomicAdd(i, 1)], 1); // another block may hold the same number of the other counter
    atomicAdd(&seen[atomicAdd(l, 1ull)], 1);
}
EXPORT wide_atomics(long long *s, unsigned long long *u, float *f, double *d) {
    long long t = INDEX;
    atomicMin(&s[0], -(t << 40)); atomicMax(&s[1], t << 40); atomicExch((unsigned long long *)&s[2], 5ull);
    atomicAnd(&u[0], ~(1ull << t % 64)); atomicOr(&u[1], 1ull << t % 64); atomicXor(&u[2], (unsigned long long)t << 32);
    unsigned long long old, now = u[3];
    do { old = now; now = atomicCAS(&u[3], old, old + (1ull << 33)); } while (now != old);
    atomicMin(&u[4], ~0ull - t); atomicMax(&u[5], ~0ull - 1024 + t);
    atomicExch(&f[0], 2.5f); atomicAdd_system(&d[0], 0.5); atomicAdd_block(&f[1], 1.0f);
}
EXPORT narrow_atomics(unsigned short *cell, half *sums, half2 *pairs) {
    unsigned short old, now = *(volatile unsigned short *)cell;
    do { old = now; now = atomicCAS(cell, old, (unsigned short)(old + 3)); } while (now != old);
    atomicAdd(sums, __float2half(0.5f));
    atomicAdd(pairs, __floats2half2_rn(1.0f, 0.25f));
}

EXPORT fences(int *cells, int *out) { // what was stored before a fence is there when the flag is
    volatile int *flags = cells + 3;
    if (threadIdx.x == 0) {
        cells[0] = 10; __threadfence_block(); flags[0] = 1;
        cells[1] = 20; __threadfence(); flags[1] = 1;
        cells[2] = 30; __threadfence_system(); flags[2] = 1;
    }
    __syncthreads();
    if (threadIdx.x == 1) for (int i = 0; i < 3; i++) { __threadfence(); out[i] = flags[i] ? cells[i] : -1; }
}

template <class V> __device__ unsigned shape() { return sizeof(V) * 100 + alignof(V); }
#define SHAPES(t) shape<t##1>(), shape<t##2>(), shape<t##3>(), shape<t##4>()
EXPORT vector_shapes(unsigned *out) {
    unsigned all[] = {SHAPES(char), SHAPES(uchar), SHAPES(short), SHAPES(ushort), SHAPES(int), SHAPES(uint), SHAPES(long),
                      SHAPES(ulong), SHAPES(longlong), SHAPES(ulonglong), SHAPES(float), SHAPES(double)};
    for (int i = 0; i < 48; i++) out[i] = all[i];
}
EXPORT vector_values(double *out) {
    double3 d = make_double3(1, 2, 3); short4 s = make_short4(4, 5, 6, 7); longlong2 l = make_longlong2(8, 9);
    dim3 g(10, 11); uint3 u = g;
    double all[] = {d.x, d.y, d.z, double(s.x), double(s.w), double(l.y), double(u.x), double(u.y), double(g.z)};
    for (int i = 0; i < 9; i++) out[i] = all[i];
}

EXPORT formats(const char *word) {
    printf("%d|%5.1f|%-4d|%08x|%llu|%c|%%|%s|%+ld|%e\n", -1, 2.25, 3, 255u, 1ull << 40, 'x', "yes", 7l, 1.5);
    printf("no newline");
}
EXPORT clocks(long long *out) {
    long long c = clock64(); int narrow = (int)clock(); unsigned long long g = __globaltimer();
    double x = threadIdx.x;
    for (int i = 0; i < 20000; i++) x = x * 1.0000001 + 1e-9;
    out[0] = clock64() - c; out[1] = (long long)(__globaltimer() - g); out[2] = x > 0; out[3] = narrow != 0;
}
"""


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_image(SOURCE)[0]


@pytest.fixture
def gpu(image: bytes) -> Iterator[Rig]:
    with rig() as gpu:
        gpu.load_image(image)
        yield gpu


@pytest.mark.parametrize("rounds", [1, 7])
def test_syncwarp_shows_a_lane_what_the_others_stored(gpu: Rig, rounds: int) -> None:
    out = gpu.array(128, np.int32)
    gpu.launch("warp_exchange", 1, 128, out, np.int32(rounds))
    lanes = np.arange(128)
    assert np.array_equal(out, (lanes & ~31) + (lanes + rounds) % 32)


def test_syncwarp_of_some_lanes(gpu: Rig) -> None:
    out = gpu.array(32, np.int32)
    gpu.launch("warp_exchange_of_some", 1, 32, out)
    assert list(out) == [lane ^ 2 if lane % 2 else 100 for lane in range(32)]


def test_atomics_return_what_was_there(gpu: Rig) -> None:
    narrow, wide, seen = gpu.array(1, np.uint32), gpu.array(1, np.uint64), gpu.array(4096, np.int32)
    gpu.launch("tickets", 16, 256, narrow, wide, seen)
    assert (seen == 2).all()


def test_atomics_of_eight_bytes(gpu: Rig) -> None:
    threads = 8 * 128
    signed, f, d = gpu.array(3, np.int64), gpu.array(2, np.float32), gpu.array(1, np.float64)
    unsigned = gpu.array(6, np.uint64)
    unsigned[0] = unsigned[4] = 2**64 - 1
    gpu.launch("wide_atomics", 8, 128, signed, unsigned, f, d)
    assert list(signed) == [-(threads - 1) << 40, threads - 1 << 40, 5]
    xor = int(np.bitwise_xor.reduce(np.arange(threads))) << 32
    assert [int(value) for value in unsigned] == [0, 2**64 - 1, xor, threads << 33, 2**64 - threads, 2**64 - 2]
    assert (f[0], f[1], d[0]) == (2.5, threads, threads / 2)


def test_atomics_of_two_bytes(gpu: Rig) -> None:
    cell, sums, pairs = gpu.array(2, np.uint16), gpu.array(2, np.float16), gpu.array(2, np.float16)
    gpu.launch("narrow_atomics", 4, 64, cell, sums, pairs)
    assert list(cell) == [3 * 256, 0], "the neighbour is left alone"
    assert list(sums) == [128, 0]
    assert list(pairs) == [256, 64]


def test_barriers_with_numbers(gpu: Rig) -> None:
    out = gpu.array(64, np.int32)
    gpu.launch("numbered_barriers", 1, 64, out, np.int32(64))
    assert (out == (63 - (np.arange(64) + 1) % 64)).all()
    with pytest.raises(LaunchError) as caught:
        gpu.launch("numbered_barriers", 1, 64, out, np.int32(32))
    assert caught.value.status == Status.FAULT


def test_fences_order_stores(gpu: Rig) -> None:
    cells, out = gpu.array(6, np.int32), gpu.array(3, np.int32)
    gpu.launch("fences", 1, 64, cells, out)
    assert list(out) == [10, 20, 30]


def test_vector_types_have_cudas_sizes_and_alignments(gpu: Rig) -> None:
    out = gpu.array(48, np.uint32)
    gpu.launch("vector_shapes", 1, 1, out)
    sizes = [1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8]
    wanted = [n * size * 100 + (min(n * size, 16) if n in (2, 4) else size) for size in sizes for n in (1, 2, 3, 4)]
    assert list(out) == wanted


def test_vectors_hold_their_components(gpu: Rig) -> None:
    out = gpu.array(9, np.float64)
    gpu.launch("vector_values", 1, 1, out)
    assert list(out) == [1, 2, 3, 4, 7, 9, 10, 11, 1]


def test_formats_of_printf(gpu: Rig) -> None:
    gpu.launch("formats", 1, 1, np.uint64(0))
    assert gpu.take_output()[0] == "-1|  2.2|3   |000000ff|1099511627776|x|%|yes|+7|1.500000e+00\nno newline"


def test_clocks_advance(gpu: Rig) -> None:
    out = gpu.array(4, np.int64)
    gpu.launch("clocks", 1, 1, out)
    assert (out > 0).all()


def test_fields_of_printf_that_take_gigabytes_are_not_printed() -> None:
    """Formats that are wrong are no way around that: '*' is the argument that the C library takes."""
    source = r"""
        extern "C" __global__ void f(int *o) {
            o[0] = printf("%1000000000d", 1);
            o[1] = printf("%.*f", 2147483647, 2.5);
            o[2] = printf("%-*s", -2147483647 - 1, "x");
            o[3] = printf("%s%%%lld%.1999999999s", "a", 5ll, "b");
            o[4] = printf("%99999999999999999999d %d\n", 1, 2);
            o[5] = printf("%I2000000000d", 1);
            o[6] = printf("%*1$d%s", 2000000000);
            o[7] = printf("%d%d%d%d%d%llf%*d", 1, 2, 3, 4, 5, 1.0L, 2000000000, 6);
            o[8] = printf("%d%d%d%d%d%zld%*d", 1, 2, 3, 4, 5, 2000000000, 6);
            o[9] = printf("%d%d%d%d%d%.-5d%*d", 1, 2, 3, 4, 5, 2000000000, 6);
        }
    """
    with rig() as gpu:
        gpu.load(source)
        out = gpu.array(10, np.int32)
        gpu.launch("f", 1, 1, out)
        assert gpu.take_output()[0] == ""
        assert out.tolist() == [-2] * 10


def test_printf_returns_the_number_of_its_arguments() -> None:
    source = r"""
        extern "C" __global__ void f(int *o, const char *none) {
            o[0] = printf("%*d|%-5.3f|%s|%lld|%c|%.*s|%5.1Lf%%\n", 4, 7, 1.0, "text", 1ll << 40, 'c', 2, "xyz", 2.0L);
            o[1] = printf("text\n");
            o[2] = printf(none);
            o[3] = printf("50%\n");
        }
    """
    with rig() as gpu:
        gpu.load(source)
        out = gpu.array(4, np.int32)
        gpu.launch("f", 1, 1, out, np.uint64(0))
        assert gpu.take_output()[0] == "   7|1.000|text|1099511627776|c|xy|  2.0%\ntext\n50%\n"
        assert out.tolist() == [9, 0, -1, 0]
