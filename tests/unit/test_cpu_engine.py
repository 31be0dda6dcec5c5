"""The CPU engine computes what CUDA promises: one test per feature, over the kernels of ``cpu_features.cu``."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, rig
from tests.waiting import until
from virtio_proto.schema import LIMITS, ParamKind, Status

INTEGER, FLOAT, POINTER, OTHER = ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER, ParamKind.OTHER

SOURCE = Path(__file__).with_name("cpu_features.cu").read_text()
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(1)


# ---- position, parameters, templates ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 255, 1000, 4096])
def test_saxpy(gpu: Rig, n: int) -> None:
    x = gpu.array(n, np.float32, np.arange(n))
    y = gpu.array(n, np.float32, 1)
    gpu.launch("saxpy", -(-n // 256), 256, np.int32(n), np.float32(2), x, y)
    assert np.array_equal(y, 2 * np.arange(n, dtype=np.float32) + 1)


@pytest.mark.parametrize("block", [(1,), (33,), (7, 5), (16, 4, 2), (1, 9, 3)])
def test_threads_know_their_position(gpu: Rig, block: tuple[int, ...]) -> None:
    grid = (3, 2, 2)
    threads = math.prod(block)
    out = gpu.array(threads * 12, np.uint32)
    gpu.launch("positions", grid, block, out)
    width, height = block[0], block[1] if len(block) > 1 else 1
    thread = np.arange(threads)
    x, y, z = thread % width, thread // width % height, thread // width // height
    expected = np.arange(12)[:, None] << 16 | z << 12 | y << 8 | x
    assert np.array_equal(out.reshape(12, threads), expected)


def test_variables_may_be_called_like_builtins(gpu: Rig) -> None:
    out = gpu.array(4, np.uint32)
    gpu.launch("shadowed_names", 1, 4, out)
    assert list(out) == [789, 790, 791, 792]


def test_parameters_of_every_shape(gpu: Rig) -> None:
    out = gpu.array((2, 12), np.float64)
    gpu.launch(
        "struct_params", 1, 2,
        np.int8(-7), struct.pack("3f", 1.5, 2.5, 3.5), b"\0", struct.pack("4f", 4, 0, 0, 5),
        struct.pack("5db7x", 6, 0, 0, 0, 7, 8), b"\1", np.int32(9), np.uint8(3), out,
    )  # fmt: skip
    expected = [-7, 1.5, 2.5, 3.5, 4, 5, 6, 7, 8, 1, 9, 3]
    assert list(out[0]) == expected
    expected[6] += 1
    assert list(out[1]) == expected


def test_function_table_tells_offsets_and_sizes(gpu: Rig) -> None:
    function = gpu.functions["struct_params"]
    assert function.params == ((0, 1), (4, 12), (16, 1), (32, 16), (48, 48), (96, 1), (100, 4), (104, 1), (112, 8))
    assert function.param_bytes == 120


PARAMETERS = """
#include <cuda_fp16.h>
struct Pair { int a, b; };
union Either { int i; float f; };
enum Colour { RED };
enum class Shade : unsigned char { DARK };
typedef const unsigned long long Count;
__global__ void take_integers(bool, char, char16_t, unsigned char, short, wchar_t, long, Count, Colour, Shade, __int128) {}
__global__ void take_floats(__half, const half, _Float16, float, const volatile double) {}
__global__ void take_pointers(const float *const __restrict__, void *, void (*)(int), int **, Pair *, __half *) {}
__global__ void take_others(Pair, const Either, float2, __half2, int2, dim3, long double, __bf16, int Pair::*) {}
"""


def test_function_table_tells_what_parameters_are(gpu: Rig) -> None:
    found = {function.short_name: set(function.param_kinds) for function in gpu.load(PARAMETERS).functions}
    assert found == {
        "take_integers": {INTEGER},
        "take_floats": {FLOAT},
        "take_pointers": {POINTER},
        "take_others": {OTHER},
    }
    mixed = gpu.functions["struct_params"]
    assert mixed.param_kinds == (INTEGER, OTHER, OTHER, OTHER, OTHER, INTEGER, OTHER, INTEGER, POINTER)


def test_template_instantiations(gpu: Rig) -> None:
    x = gpu.array(64, np.float32, 2)
    gpu.launch("_Z5scaleIfLi3EEvPT_", 1, 64, x)
    assert (x == 6).all()
    assert gpu.functions["scale"].name == "_Z5scaleIfLi3EEvPT_"


def test_functors(gpu: Rig) -> None:
    x = gpu.array(64, np.int32, np.arange(64))
    gpu.launch("apply", 1, 64, x, b"\0")
    assert np.array_equal(x, np.arange(64) ** 2)


def test_launch_bounds_are_in_the_table(gpu: Rig) -> None:
    assert gpu.functions["bounded"].max_threads == 128
    assert gpu.functions["saxpy"].max_threads == 1024


# ---- memory spaces ------------------------------------------------------------------------------------------------


def test_device_and_constant_variables(gpu: Rig) -> None:
    out = gpu.array(8, np.float32)
    gpu.variable("coefficients").view(np.float32)[:] = [10, 20, 30, 40]
    gpu.variable("hidden").view(np.int32)[:] = 600
    before = int(gpu.variable("counter").view(np.int32)[0])
    gpu.launch("variables", 1, 8, out)
    assert np.array_equal(out, np.array([10, 20, 30, 40] * 2) + 600)
    assert gpu.variable("counter").view(np.int32)[0] == before + 10


def test_managed_variables_are_those_of_host_code_and_kernels() -> None:
    """Host code that uses them is parsed; a guest copies them by their names."""
    with rig() as made:
        made.load(r"""
            #include <cstdio>
            __device__ __managed__ int counter = 5;
            __managed__ float table[4] = {1, 2, 3, 4};
            struct Box { int *data; int n; };
            static __managed__ Box box;
            extern "C" __global__ void use(int by) {
                const int t = threadIdx.x;
                box.n = counter;
                __syncthreads();
                atomicAdd(&counter, by);
                table[t] *= t;
                if (t == 0) box.data = &counter;
            }
            int main() {
                counter = 3;
                use<<<1, 4>>>(2);
                cudaDeviceSynchronize();
                for (float &x : table) printf("%f", x);
                return *box.data + box.n;
            }
        """)
        counter, table = made.variable("counter").view(np.int32), made.variable("table").view(np.float32)
        box = made.variable("box")
        assert (counter[0], table.tolist(), box.tolist()) == (5, [1, 2, 3, 4], [0] * 16)
        counter[0], table[3] = 100, 0.5
        made.launch("use", 1, 4, np.int32(2))
        assert (counter[0], table.tolist(), box.view(np.int32)[2]) == (108, [0, 2, 6, 1.5], 100)
        assert box.view(np.uint64)[0] == counter.ctypes.data


def test_variables_of_one_source_keep_their_names_where_host_code_uses_them() -> None:
    with rig() as made:
        made.load(r"""
            static __constant__ int weights[4];
            namespace { __device__ int sum = 1; }
            static __device__ int unused_by_host = 2;
            extern "C" __global__ void add() { sum += weights[threadIdx.x] + unused_by_host; }
            int main() {
                int values[4] = {1, 2, 3, 4};
                cudaMemcpyToSymbol(weights, values, sizeof values);
                return cudaMemcpyFromSymbol(values, sum, sizeof sum);
            }
        """)
        made.variable("weights").view(np.int32)[:] = [10, 20, 30, 40]
        made.variable("unused_by_host").view(np.int32)[0] = 5
        made.launch("add", 1, 1)
        assert made.variable("sum").view(np.int32)[0] == 16


@pytest.mark.parametrize("kind", ["static __device__ int", "__device__ int", "static __device__ volatile int"])
def test_variables_that_kernels_only_write_can_be_read(kind: str) -> None:
    with rig() as made:
        made.load(f'{kind} seen[1000]; extern "C" __global__ void see(int i) {{ seen[i] = 7; }}')
        made.launch("see", 1, 1, np.int32(999))
        seen = made.variable("seen").view(np.int32)
        assert (seen.size, seen[998], seen[999]) == (1000, 0, 7)


def _private_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGESIZE")


def test_memory_of_threads_goes_with_the_program_that_needed_it() -> None:
    source = 'extern "C" __global__ void f(char *to, int i) { char a[16000]; a[i] = i; __syncthreads(); *to = a[*to]; }'
    with rig() as made:
        program = made.load(source)
        out = made.array(1, np.uint8)
        before = _private_bytes()
        made.launch("f", 64, 1024, out, np.int32(0))
        assert _private_bytes() - before > 15 << 20
        made.programs.remove(program)
        made.engine.unload_program(program)
        until(lambda: _private_bytes() - before < 1 << 20)


@pytest.mark.parametrize("threads", [32, 100, 256])
def test_static_shared_memory(gpu: Rig, threads: int) -> None:
    x = gpu.array((3, threads), np.int32, np.arange(3 * threads).reshape(3, threads))
    gpu.launch("reverse_static", 3, threads, x)
    assert np.array_equal(x, np.arange(3 * threads).reshape(3, threads)[:, ::-1])
    assert gpu.functions["reverse_static"].shared_bytes == 1024


def test_dynamic_shared_memory(gpu: Rig) -> None:
    x = gpu.array(96, np.int32, np.arange(96) + 7)
    gpu.launch("reverse_dynamic", 1, 96, x, shared=96 * 4)
    assert np.array_equal(x, np.arange(96)[::-1] + 7 + 7000)
    assert gpu.functions["reverse_dynamic"].shared_bytes == 4  # its own, to the byte


def test_shared_variable_of_a_device_function(gpu: Rig) -> None:
    out = gpu.array(200, np.int32)
    gpu.launch("shared_in_function", 2, 100, out)
    assert (out == 100).all()


def test_local_array_lives_across_barriers(gpu: Rig, random: np.random.Generator) -> None:
    values = random.integers(0, 100, 64).astype(np.int32)
    out = gpu.array(64, np.int32)
    gpu.launch("local_array", 1, 64, gpu.array(64, np.int32, values), out, np.int32(5))
    mine = values[:, None] + np.arange(16)
    for round_ in range(5):
        mine[np.arange(64), (values + round_) % 16] += 100
    assert np.array_equal(out, (mine * (np.arange(16) + 1)).sum(axis=1))


# ---- barriers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [32, 64, 512, 1024])
def test_barrier_in_a_loop(gpu: Rig, threads: int) -> None:
    x = gpu.array(threads, np.int32, np.arange(threads) % 7)
    gpu.launch("scan", 1, threads, x)
    assert np.array_equal(x, np.cumsum(np.arange(threads) % 7))


@pytest.mark.parametrize("n", [2, 64, 100, 300])
def test_threads_that_ended_do_not_hold_barriers(gpu: Rig, n: int) -> None:
    x = gpu.array(512, np.int32, np.arange(512))
    gpu.launch("early_exit", 2, 256, x, np.int32(n))
    expected = np.arange(512)
    expected[:n] = (expected[:n] ^ 1) * 2
    assert np.array_equal(x, expected)


def test_scattered_threads_end_early(gpu: Rig) -> None:
    x = gpu.array(100, np.int32, -1)
    gpu.launch("scattered_exit", 1, 100, x)
    assert np.array_equal(x, np.where(np.arange(100) % 3 == 0, -1, 66))


@pytest.mark.parametrize("set_lanes", [0, 1, 64, 96])
def test_barriers_that_count(gpu: Rig, set_lanes: int) -> None:
    x = gpu.array(96, np.int32, np.arange(96) < set_lanes)
    out = gpu.array(96, np.int32)
    gpu.launch("barrier_votes", 1, 96, x, out)
    assert (out == set_lanes * 100 + (set_lanes == 96) * 10 + (set_lanes > 0)).all()


def test_barriers_in_different_branches_meet(gpu: Rig) -> None:
    x = gpu.array(64, np.int32)
    gpu.launch("barrier_in_branches", 1, 64, x)
    assert np.array_equal(x, np.arange(64)[::-1])


def test_tiled_matrix_product(gpu: Rig, random: np.random.Generator) -> None:
    n = 64
    a = gpu.array((n, n), np.float32, random.random((n, n)))
    b = gpu.array((n, n), np.float32, random.random((n, n)))
    c = gpu.array((n, n), np.float32)
    gpu.launch("matmul", (n // 16, n // 16), (16, 16), a, b, c, np.int32(n))
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_bodies_attract_each_other(gpu: Rig, random: np.random.Generator) -> None:
    n = 256
    bodies = random.random((n, 4)).astype(np.float32)
    out = gpu.array((n, 4), np.float32)
    gpu.launch("nbody", n // 64, 64, gpu.array((n, 4), np.float32, bodies), out, np.int32(n))
    apart = bodies[None, :, :3] - bodies[:, None, :3]
    inverse = ((apart**2).sum(axis=2) + 1e-3) ** -0.5
    expected = (apart * (bodies[:, 3] * inverse**3)[:, :, None]).sum(axis=1)
    assert np.allclose(out[:, :3], expected, rtol=1e-3, atol=1e-2)


# ---- loops --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 64, 250])
@pytest.mark.parametrize("count", [0, 1, 17])
def test_loop_of_the_same_length_in_all_threads(gpu: Rig, threads: int, count: int) -> None:
    x = gpu.array(32, np.float32, np.arange(32))
    out = gpu.array(2 * threads, np.float32, -1)
    gpu.launch("uniform_loop", 2, threads, x, out, np.int32(count))
    assert np.array_equal(out, (np.arange(2 * threads) + 1.0) * x[:count].sum())


def test_loop_of_another_length_in_each_thread(gpu: Rig) -> None:
    out = gpu.array(100, np.int32)
    gpu.launch("varying_loop", 1, 100, out)
    assert np.array_equal(out, np.cumsum(np.arange(100)))


def test_loop_that_ends_early(gpu: Rig, random: np.random.Generator) -> None:
    order = random.permutation(64).astype(np.int32)
    out = gpu.array(128, np.int32)
    gpu.launch("breaking_loop", 2, 64, gpu.array(64, np.int32, order), out, np.int32(64))
    assert np.array_equal(out[:64], np.argsort(order))
    assert (out[64:] == 64).all()


def test_nested_loops(gpu: Rig) -> None:
    out = gpu.array(40, np.float32)
    gpu.launch("nested_loops", 1, 40, out, np.int32(9))
    pairs = [(i, j) for i in range(9) for j in range(i, 9)]
    expected = sum(i * 3 + j for i, j in pairs) + len(pairs) * np.arange(40)
    assert np.array_equal(out, expected)


def test_loop_over_what_the_thread_itself_writes(gpu: Rig) -> None:
    x = gpu.array((64, 20), np.int32, np.arange(64 * 20).reshape(64, 20))
    gpu.launch("loop_over_own_memory", 2, 32, x, np.int32(20))
    assert np.array_equal(x, np.cumsum(np.arange(64 * 20).reshape(64, 20), axis=1))


def test_unsigned_index_that_wraps(gpu: Rig) -> None:
    x, out = gpu.array(100, np.int32, np.arange(100) + 3), gpu.array(100, np.int32)
    gpu.launch("left_neighbours", 1, 100, x, out, np.int32(5))
    assert np.array_equal(out, np.concatenate([[0], (np.arange(99) + 3) * 10]))


def test_grid_stride_loop(gpu: Rig) -> None:
    n = 1003
    x, y = gpu.array(n, np.float32, np.arange(n)), gpu.array(n, np.float32)
    gpu.launch("grid_stride", 3, 64, x, y, np.int32(n))
    assert np.array_equal(y, 2 * x)


# ---- warps --------------------------------------------------------------------------------------------------------


def _shuffled(lane: Array, base: Array) -> Array:
    def down(delta: int, width: int) -> Array:
        return np.where(lane % width + delta < width, lane + delta, lane)

    def up(delta: int, width: int) -> Array:
        return np.where(lane % width >= delta, lane - delta, lane)

    sources = [lane * 0 + 5, up(3, 32), down(3, 32), lane ^ 7, lane // 8 * 8 + (lane + 1) % 8, up(1, 4), down(1, 4)]
    ints = [(base + source) * 10 for source in sources]
    return np.stack([*ints, (base + (lane ^ 16)) * 20 + 1], axis=1)


def test_shuffles(gpu: Rig) -> None:
    out = gpu.array((96, 8), np.int32)
    gpu.launch("shuffles", 1, 96, out)
    lane = np.arange(96) % 32
    assert np.array_equal(out, _shuffled(lane, np.arange(96) - lane))


def test_shuffles_of_a_partial_warp(gpu: Rig) -> None:
    out = gpu.array((40, 8), np.int32)
    gpu.launch("shuffles", 1, 40, out)
    lane = np.arange(32)
    assert np.array_equal(out[:32], _shuffled(lane, lane * 0))


def test_warp_reduction(gpu: Rig, random: np.random.Generator) -> None:
    x = gpu.array(1024, np.float32, random.integers(0, 100, 1024))
    out = gpu.array(32, np.float32)
    gpu.launch("warp_reduce", 4, 256, x, out)
    assert np.array_equal(out, x.reshape(32, 32).sum(axis=1))


def test_block_reduction_that_ends_in_one_warp(gpu: Rig, random: np.random.Generator) -> None:
    x = gpu.array(10000, np.float32, random.integers(0, 10, 10000))
    out = gpu.array(4, np.float32)
    gpu.launch("block_reduce", 4, 256, x, out, np.int32(10000))
    assert out.sum() == x.sum()


@pytest.mark.parametrize("pattern", [0, 0xFFFFFFFF, 0x80000001, 0x0F0F1234])
def test_votes(gpu: Rig, pattern: int) -> None:
    bits = (pattern >> np.arange(32)) & 1
    out = gpu.array((32, 6), np.uint32)
    gpu.launch("votes", 1, 32, gpu.array(32, np.int32, bits), out)
    assert (out[:, 0] == pattern).all()
    assert (out[:, 1] == (pattern != 0)).all()
    assert (out[:, 2] == (pattern == 0xFFFFFFFF)).all()
    same = [sum(1 << lane for lane in range(32) if lane % 3 == mine % 3) for mine in range(32)]
    assert np.array_equal(out[:, 3], same)
    agreed = pattern in (0, 0xFFFFFFFF)
    assert (out[:, 4] == (0xFFFFFFFF if agreed else 0)).all()
    assert (out[:, 5] == agreed).all()


def test_masks_keep_branches_apart(gpu: Rig) -> None:
    out = gpu.array(32, np.int32)
    gpu.launch("masked_shuffle", 1, 32, out)
    lane = np.arange(32)
    assert np.array_equal(out, np.where(lane % 2 == 0, lane + (lane ^ 2), lane + 1000 + (lane ^ 4)))


@pytest.mark.parametrize("threads", [32, 40])
def test_activemask_has_the_lanes_that_arrived_together(gpu: Rig, threads: int) -> None:
    out = gpu.array((threads, 2), np.uint32)
    gpu.launch("active_lanes", 1, threads, out)
    lane = np.arange(threads)
    full = np.where(lane < 32, 0xFFFFFFFF, (1 << (threads - 32 if threads > 32 else 0)) - 1)
    assert np.array_equal(out[:, 0], full)
    assert np.array_equal(out[:, 1], np.where(lane % 4 == 1, full & 0x22222222, 0))


def test_reductions_over_a_warp(gpu: Rig) -> None:
    out = gpu.array((32, 3), np.int32)
    gpu.launch("warp_sums", 1, 32, out)
    assert (out == [496, 31, 0]).all()


def test_cooperative_groups(gpu: Rig) -> None:
    out = gpu.array(64, np.int32)
    gpu.launch("tiles", 1, 64, out)
    lane = np.arange(64)
    assert np.array_equal(out, lane.reshape(8, 8).sum(axis=1).repeat(8) * 100 + lane % 8)


# ---- atomics ------------------------------------------------------------------------------------------------------


def test_atomics_of_all_types(gpu: Rig) -> None:
    threads = 8 * 128
    i, u = gpu.array(6, np.int32), gpu.array(6, np.uint32)
    u[0] = 0xFFFFFFFF
    wide, f, d = gpu.array(3, np.uint64), gpu.array(1, np.float32), gpu.array(1, np.float64)
    gpu.launch("atomics", 8, 128, i, u, wide, f, d)
    assert list(i) == [threads, -threads, -threads + 1, threads - 1, 2 * threads, 3 * threads]
    xor = int(np.bitwise_xor.reduce(np.arange(threads)))
    assert list(u) == [0, 0xFFFFFFFF, xor, threads % 10, (-threads) % 10, 2 * threads]
    assert list(wide) == [threads << 33, (threads - 1) << 32, 77]
    assert f[0] == threads / 2
    assert d[0] == threads / 4


def test_last_block_sums_up(gpu: Rig, random: np.random.Generator) -> None:
    x = gpu.array(16 * 64, np.int32, random.integers(0, 100, 16 * 64))
    out, done = gpu.array(17, np.int32), gpu.array(1, np.uint32)
    for _ in range(3):
        gpu.launch("last_block", 16, 64, x, out, done)
        assert out[0] == x.sum()
        assert done[0] == 0


# ---- math ---------------------------------------------------------------------------------------------------------


def test_math_functions(gpu: Rig, random: np.random.Generator) -> None:
    n = 100
    x = gpu.array(n, np.float32, random.random(n) * 3 + 0.1)
    out = gpu.array((20, n), np.float32)
    gpu.launch("math", 1, 128, x, out, np.int32(n))
    v = x.astype(np.float64)
    erf = np.vectorize(math.erf)
    expected = [
        np.sin(v), np.cos(v), np.exp(v), np.log(v), np.sqrt(v), v**-0.5, v**1.5, np.arctan2(v, 2), np.tanh(v), np.minimum(v, 1),
        np.floor(v), np.sin(v) + np.cos(v), erf(v), 2**v, np.cbrt(v), np.fmod(x, np.float32(0.3)), np.clip(v, 0, 1), v * v + 1,
        np.hypot(v, 1), np.log1p(v),
    ]  # fmt: skip
    for row, (got, want) in enumerate(zip(out, expected, strict=True)):
        assert np.allclose(got, want, rtol=2e-6, atol=1e-6), row


def test_double_precision_math(gpu: Rig, random: np.random.Generator) -> None:
    n = 64
    x = gpu.array(n, np.float64, random.random(n) * 3 + 0.1)
    out = gpu.array((10, n), np.float64)
    gpu.launch("math_double", 1, n, x, out, np.int32(n))
    erf, gamma = np.vectorize(math.erf), np.vectorize(math.gamma)
    expected = [
        np.sin(x),
        np.exp(x),
        np.log(x),
        np.sqrt(x),
        x**2.5,
        np.arctan(x),
        erf(x),
        gamma(x),
        np.cbrt(x),
        np.fmod(x, 0.3),
    ]
    for row, (got, want) in enumerate(zip(out, expected, strict=True)):
        assert np.allclose(got, want, rtol=1e-13), row


def test_integer_intrinsics(gpu: Rig) -> None:
    out = gpu.array((2, 14), np.uint64)
    gpu.launch("integers", 1, 2, out)
    x, y = 0x12345678, 0x9ABCDEF0
    signed_y = y - (1 << 32)
    mulhi = ((x * signed_y) >> 32) & 0xFFFFFFFF
    lo24 = (x & 0xFFFFFF) * (y & 0xFFFFFF) & 0xFFFFFFFF
    high64 = (0x123456789ABCDEF * 0xFEDCBA987654321) >> 64
    got = [int(value) for value in out[0]]
    assert got[:6] == [x.bit_count(), 3, 4, int(f"{x:032b}"[::-1], 2), x * y >> 32, mulhi]
    assert got[6] == _byte_perm(x, y, 0x2165)
    assert got[7:] == [(y << 8 | x >> 24) & 0xFFFFFFFF, lo24, y - x + 1, high64, 0xFFFFFFFB, y, 7]


def _byte_perm(x: int, y: int, selector: int) -> int:
    parts = (y << 32 | x).to_bytes(8, "little")
    return int.from_bytes(bytes(parts[selector >> 4 * i & 7] for i in range(4)), "little")


def test_conversions_saturate(gpu: Rig) -> None:
    values = [1.5, 2.5, -1.5, 3e9, -3e9, math.nan, 0.49]
    n = len(values)
    x = gpu.array(n, np.float32, values)
    out = gpu.array((6, n), np.int32)
    gpu.launch("conversions", 1, 32, x, out, np.int32(n))
    low, high = -(1 << 31), (1 << 31) - 1
    assert list(out[0]) == [1, 2, -1, high, low, 0, 0]
    assert list(out[1]) == [1, 2, 0, 3000000000 - (1 << 32), 0, 0, 0]
    assert list(out[2]) == [2, 2, -2, high, low, 0, 0]
    assert list(out[3]) == [1, 2, -2, high, low, 0, 0]
    assert list(out[4]) == [2, 3, -1, high, low, 0, 1]
    assert np.array_equal(out[5], x.view(np.int32))


def test_directed_rounding(gpu: Rig, random: np.random.Generator) -> None:
    n = 200
    a = gpu.array(n, np.float32, random.normal(size=n) * 10.0 ** random.integers(-8, 8, n))
    b = gpu.array(n, np.float32, random.normal(size=n) * 10.0 ** random.integers(-8, 8, n))
    out = gpu.array((10, n), np.float32)
    gpu.launch("rounding", 1, 256, a, b, out, np.int32(n))
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    for low, high, exact in (
        (0, 1, wide_a + wide_b),
        (2, 3, wide_a * wide_b),
        (4, 5, wide_a / wide_b),
        (6, 7, np.sqrt(np.abs(wide_a))),
    ):
        assert (out[low] <= exact).all()
        assert (out[high] >= exact).all()
        assert (np.nextafter(out[low], np.float32(np.inf)) >= out[high]).all()
    assert np.array_equal(out[8], np.where(wide_a + wide_b > 0, out[0], out[1]))
    assert (out[9] <= wide_a * wide_b + 1).all()


def test_half_precision(gpu: Rig, random: np.random.Generator) -> None:
    n = 64
    a = gpu.array(n, np.float16, random.random(n))
    b = gpu.array(n, np.float16, random.random(n))
    out, pairs, wide = gpu.array((5, n), np.float16), gpu.array((n, 2), np.float16), gpu.array(n, np.float32)
    gpu.launch("halves", 1, n, a, b, out, pairs, wide)
    exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
    expected = [exact_a + exact_b, exact_a * exact_b, exact_a * exact_b + exact_a, np.sqrt(exact_a), exact_a * 3]
    assert np.array_equal(out, np.array(expected).astype(np.float16))
    assert np.array_equal(pairs, np.stack([a, b], axis=1) + np.float16(1))
    assert np.array_equal(wide, a.astype(np.float32) + (a < b))


def test_vector_types(gpu: Rig, random: np.random.Generator) -> None:
    n = 96
    values = gpu.array((n, 4), np.float32, random.random((n, 4)))
    colours = gpu.array((n, 4), np.uint8, random.integers(0, 255, (n, 4)))
    out, sums = gpu.array((n, 4), np.float32), gpu.array((n, 2), np.int32)
    gpu.launch("vectors", 3, 32, values, out, colours, sums)
    assert np.array_equal(out, values[:, ::-1])
    wide = colours.astype(np.int32)
    assert np.array_equal(sums, np.stack([wide[:, 0] + wide[:, 1], wide[:, 2] - wide[:, 3]], axis=1))


# ---- the rest -----------------------------------------------------------------------------------------------------


def test_timers_and_special_registers(gpu: Rig) -> None:
    out = gpu.array((64, 4), np.uint64)
    gpu.launch("timers", 1, 64, out)
    assert (out[:, :2] == 1).all()
    assert (out[:, 2] < gpu.engine.num_pes).all()
    assert np.array_equal(out[:, 3], np.arange(64) % 32)


def test_printf(gpu: Rig) -> None:
    gpu.take_output()
    gpu.launch("prints", 2, 32, np.int32(2))
    assert gpu.take_output(context=2) == ("", 0, 0)
    printed, left, lost = gpu.take_output()
    expected = sorted(f"thread {t} of block {b}: {t * 0.5:.2f} ok" for t in range(2) for b in range(2))
    assert (sorted(printed.splitlines()), left, lost) == (expected, 0, 0)
    assert gpu.take_output() == ("", 0, 0)


def test_printed_text_can_be_taken_in_pieces(gpu: Rig) -> None:
    gpu.launch("prints", 1, 32, np.int32(1))
    whole = "thread 0 of block 0: 0.00 ok\n"
    assert gpu.take_output(room=7) == (whole[:7], len(whole) - 7, 0)
    assert gpu.take_output(room=100) == (whole[7:], 0, 0)


def test_printf_beyond_the_buffer_is_counted(gpu: Rig) -> None:
    gpu.take_output()
    gpu.launch("prints", 64, 1024, np.int32(1024))
    printed, left, lost = gpu.take_output()
    assert left == 0
    assert LIMITS["MAX_OUTPUT_BYTES"] - 64 < len(printed) <= LIMITS["MAX_OUTPUT_BYTES"]
    assert all(line.endswith(" ok") for line in printed.splitlines()), "no line is torn"
    assert len(printed) + lost == sum(
        len(f"thread {t} of block {b}: {t * 0.5:.2f} ok\n") for t in range(1024) for b in range(64)
    )
    assert gpu.take_output() == ("", 0, 0)


def test_failed_assertion_ends_the_launch(gpu: Rig) -> None:
    with pytest.raises(LaunchError, match=r"source\.cu:\d+: void asserts\(int\): block: \[0,0,0\], thread: \[5,0,0\] "
                       r"Assertion `threadIdx.x < limit` failed\.") as caught:  # fmt: skip
        gpu.launch("asserts", 1, 32, np.int32(5))
    assert caught.value.status == Status.ASSERT
    gpu.launch("asserts", 1, 32, np.int32(32))


def test_trap_ends_the_launch(gpu: Rig) -> None:
    with pytest.raises(LaunchError, match=r"__trap\(\) in kernel 'traps', block \(0,0,0\), thread \(3,0,0\)") as caught:
        gpu.launch("traps", 1, 32)
    assert caught.value.status == Status.FAULT


def test_deadlock_is_found(gpu: Rig) -> None:
    out = gpu.array(32, np.int32)
    with pytest.raises(
        LaunchError, match=r"'deadlock'.*block \(0,0,0\).*thread \(0,0,0\).*16 threads at barriers"
    ) as caught:
        gpu.launch("deadlock", 1, 32, out)
    assert caught.value.status == Status.DEADLOCK
    test_saxpy(gpu, 1000)


def test_x86_assembly_is_guest_code_like_any_other(gpu: Rig) -> None:
    out = gpu.array(16, np.uint64)
    gpu.launch("x86_assembly", 1, 16, out)
    assert np.array_equal(out, np.arange(16) + 41)


def test_recursion(gpu: Rig) -> None:
    out = gpu.array(12, np.int32)
    gpu.launch("recursion", 1, 12, out)
    assert list(out) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


@pytest.mark.parametrize("which", [0, 1])
def test_virtual_functions(gpu: Rig, which: int) -> None:
    out = gpu.array(16, np.int32)
    gpu.launch("virtual_call", 1, 16, out, np.int32(which))
    lane = np.arange(16)
    assert np.array_equal(out, (lane + 2) ** 2 if which else lane * 0 - 2)


def test_function_pointers(gpu: Rig) -> None:
    out = gpu.array(16, np.int32)
    gpu.launch("function_pointer", 1, 16, out)
    assert np.array_equal(out, 2 * np.arange(16))


def test_clock_of_kernels_has_the_rate_that_programs_are_told(gpu: Rig) -> None:
    gpu.load(r"""
        extern "C" __global__ void spans(long long *ticks, long long *ns) {
            unsigned long long begin = clock64(), first = __globaltimer(), now = first;
            while (now - first < 5000000) now = __globaltimer();
            ticks[0] = clock64() - begin;
            ns[0] = now - first;
        }
    """)
    told_khz = float(gpu.engine.handle.properties.clock_khz)
    ticks, ns = gpu.array(1, np.int64), gpu.array(1, np.int64)

    def is_told() -> bool:
        """An interruption between two of the readings is no fault."""
        gpu.launch("spans", 1, 1, ticks, ns)
        return bool(abs(int(ticks[0]) * 1e6 / int(ns[0]) / told_khz - 1) < 0.02)

    assert any(is_told() for _ in range(20))
