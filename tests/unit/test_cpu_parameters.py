"""Parameters of kernels: blocks of up to 32,764 bytes, structs by value, `__grid_constant__`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, rig
from virtio_proto.schema import LIMITS

LONGEST = LIMITS["MAX_PARAM_BYTES"]

SOURCE = r"""
struct Table { int row[8000]; };
struct Whole { char bytes[32764]; };
__device__ int *kept;

extern "C" __global__ void pick(Table table, const int *index, int *out) {
    out[threadIdx.x] = table.row[index[threadIdx.x]];
}
extern "C" __global__ void change(Table table, const int *index, int *out) { // a copy of each thread's own
    int at = index[threadIdx.x];
    table.row[at] += threadIdx.x;
    __syncthreads();
    int *row = table.row;
    for (int i = 0; i < 8000; i += 1000) row[i] += 1;
    out[threadIdx.x] = row[at];
}
struct alignas(64) Wide { float v[32]; };
extern "C" __global__ void wide(const __grid_constant__ Wide constant, Wide own, float *out, int i) {
    Wide copy = constant, changed = own;
    changed.v[i] += threadIdx.x;
    __syncthreads();
    for (int k = 0; k < 32; k++) out[threadIdx.x * 64 + k] = copy.v[k], out[threadIdx.x * 64 + 32 + k] = changed.v[k];
}
extern "C" __global__ void last(const __grid_constant__ Whole whole) { ((volatile int *)kept)[0] = whole.bytes[32763]; }
__device__ const int *row_of(const Table &table, int i) { return &table.row[i]; }
extern "C" __global__ void constant(const __grid_constant__ Table table, const int *index, const int **out, int *same) {
    out[threadIdx.x] = row_of(table, 0);
    __syncthreads();
    same[threadIdx.x] = out[0][index[threadIdx.x]];
}
"""


EMPTY = r"""
struct None {};
template <class F> struct Holder { F f; __device__ int call(int x) const { return f(x); } };
struct Twice { __device__ int operator()(int x) const { return 2 * x; } };
struct Based : None { Twice pair[2]; };
struct Large { None many[24]; };
extern "C" __global__ void holders(Holder<Twice> a, char c, Holder<Holder<None>> b, Based d, Large e, int *out, None f, int g) {
    out[threadIdx.x] = a.call(c) + d.pair[1](g);
}
struct Item { int x; float y; };
extern "C" __global__ void references(const Item &item, int (&out)[4], Item &&last, Item *same) {
    out[threadIdx.x] = item.x + (int)last.y + (&item == same);
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig() as made:
        made.load(SOURCE)
        yield made


def test_structs_with_an_alignment_of_their_own(gpu: Rig) -> None:
    values = np.arange(64, dtype=np.float32)
    out = gpu.array((16, 64), np.float32)
    gpu.launch("wide", 1, 16, values[:32].tobytes(), values[32:].tobytes(), out, np.int32(3))
    expected = np.tile(values, (16, 1))
    expected[:, 35] += np.arange(16)
    assert np.array_equal(out, expected)


TABLE = np.random.default_rng(1).integers(0, 1 << 20, 8000).astype(np.int32)
INDEX = np.arange(0, 8000, 125).astype(np.int32)


def test_a_table_that_is_passed_by_value_is_read_at_any_index(gpu: Rig) -> None:
    out = gpu.array(64, np.int32)
    gpu.launch("pick", 1, 64, TABLE.tobytes(), gpu.array(64, np.int32, INDEX), out)
    assert np.array_equal(out, TABLE[INDEX])


def test_each_thread_changes_its_own_copy(gpu: Rig) -> None:
    out = gpu.array(64, np.int32)
    gpu.launch("change", 1, 64, TABLE.tobytes(), gpu.array(64, np.int32, INDEX), out)
    assert np.array_equal(out, TABLE[INDEX] + np.arange(64) + (INDEX % 1000 == 0))


def test_the_last_byte_of_the_longest_block_arrives(gpu: Rig) -> None:
    out = gpu.array(1, np.int32)
    gpu.variable("kept").view(np.uint64)[:] = out.ctypes.data
    gpu.launch("last", 1, 1, bytes(LONGEST - 1) + b"\7")
    assert gpu.functions["last"].param_bytes == LONGEST
    assert out[0] == 7


def test_a_grid_constant_is_one_object_of_all_threads(gpu: Rig) -> None:
    addresses, same = gpu.array(128, np.uint64), gpu.array(128, np.int32)
    index = gpu.array(128, np.int32, np.arange(128))
    gpu.launch("constant", 1, 128, TABLE.tobytes(), index, addresses, same)
    assert len(set(addresses)) == 1
    assert np.array_equal(same, TABLE[:128])


HALVES = r"""
struct Empty {};
struct Other {};
struct Plus : Empty { __device__ int operator()(int a, int b) const { return a + b; } };
struct Nested { Empty empty; Other others[4]; };
struct Behind : Plus { Empty empty; alignas(8) int *to; }; // its first eight bytes have no data
struct Before { alignas(16) Empty first; alignas(8) float value; };
struct alignas(16) Padded { int value; };
struct Pair { Other other; int a, b, c; };
extern "C" __global__ void k(Plus plus, int a, Nested nested, Behind behind, Padded padded, Pair pair, Before before, int z) {
    behind.to[0] = plus(a, padded.value), behind.to[1] = pair.a, behind.to[2] = pair.b, behind.to[3] = pair.c;
    behind.to[4] = int(before.value), behind.to[5] = z;
}
"""


def test_empty_bases_and_members_are_not_passed() -> None:
    with rig() as gpu:
        gpu.load(HALVES)
        out = gpu.array(6, np.int32)
        behind = bytes(8) + out.ctypes.data.to_bytes(8, "little")
        padded = np.int32(20).tobytes() + bytes(12)
        pair = bytes(4) + np.array([3, 4, 5], np.int32).tobytes()
        before = bytes(8) + np.float32(6).tobytes() + bytes(4)
        gpu.launch("k", 1, 1, b"\0", np.int32(1), bytes(5), behind, padded, pair, before, np.int32(7))
        assert out.tolist() == [21, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("parameters", ["Whole a, char b", "char a, double b, Whole c", "Huge a"])
def test_longer_blocks_are_refused(parameters: str) -> None:
    types = "struct Whole { char bytes[32764]; }; struct Huge { char bytes[1 << 30]; };"
    with pytest.raises(CompileError, match=f"bytes of parameters, at most {LONGEST} are possible"):
        compile_image(f"{types} __global__ void k({parameters}) {{}}")


def test_structs_of_nothing_take_their_place() -> None:
    with rig() as made:
        made.load(EMPTY)
        out = made.array(2, np.int32)
        nothing = bytes(1)
        made.launch("holders", 1, 2, nothing, np.int8(3), nothing, bytes(2), bytes(24), out, nothing, np.int32(5))
        assert out.tolist() == [16, 16]
        assert made.functions["holders"].param_bytes == 48


def test_references_are_pointers() -> None:
    with rig() as made:
        made.load(EMPTY)
        item, last, out = made.array(2, np.int32, [7, 0]), made.array(2, np.float32, [0, 3]), made.array(4, np.int32)
        made.launch("references", 1, 4, item, out, last, item)
        assert out.tolist() == [11] * 4


BITS = r"""
struct Key { unsigned long long key : 40, value : 24; };
struct Flags { int a; unsigned low : 8, high : 24; };
struct Split { unsigned long long first : 40, : 0; unsigned second : 3; };
extern "C" __global__ void bits(Key key, int n, Flags flags, Split split, long long *out) {
    out[0] = key.key; out[1] = key.value; out[2] = n; out[3] = flags.a; out[4] = flags.low; out[5] = flags.high;
    out[6] = split.first; out[7] = split.second;
}
"""


def test_bit_fields_are_where_they_are_in_memory() -> None:
    with rig() as made:
        made.load(BITS)
        out = made.array(8, np.int64)
        key = (123_456_789_012 | 54_321 << 40).to_bytes(8, "little")
        flags = (7).to_bytes(4, "little") + (200 | 70_000 << 8).to_bytes(4, "little")
        split = (987_654_321_000).to_bytes(8, "little") + (5).to_bytes(8, "little")
        made.launch("bits", 1, 1, key, np.int32(-3), flags, split, out)
        assert out.tolist() == [123_456_789_012, 54_321, -3, 7, 200, 70_000, 987_654_321_000, 5]
