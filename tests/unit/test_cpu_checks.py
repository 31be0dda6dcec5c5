"""--memcheck, --initcheck and --racecheck on the CPU engine: what is reported, where, and what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, rig
from vhost_backend._dataplane import ffi, lib
from virtio_proto.schema import Status

MEMORY = r"""
__device__ int table[8];
struct Image { float *pixels; int cols; };
__device__ int get(const int *p, int i) {
    return p[i]; // get
}
__device__ __noinline__ int sum(const int *p, int n) {
    return n == 0 ? 0 : p[n - 1] + sum(p, n - 1); // sum
}
extern "C" __global__ void row_before(const float *image, float *out, int cols) {
    int t = threadIdx.x;
    out[t] = image[t - cols]; // row_before
}
extern "C" __global__ void behind(int *a, int n) {
    if (threadIdx.x == 3 && blockIdx.x == 1)
        a[n + 2] = 1; // behind
}
extern "C" __global__ void tile(int *a, int n) {
    __shared__ int first[64], second[64];
    second[threadIdx.x] = 7;
    first[threadIdx.x + n] = threadIdx.x; // tile
    __syncthreads();
    a[threadIdx.x] = second[threadIdx.x];
}
extern "C" __global__ void dynamic(int *a) {
    extern __shared__ int room[];
    room[threadIdx.x + 1] = 2; // dynamic
    a[threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void own(int *a, int n) {
    int mine[8];
    for (int i = 0; i < 8; i++) mine[i] = a[i];
    a[threadIdx.x] = mine[n]; // own
}
extern "C" __global__ void variable(int *a, int n) { a[0] = table[n]; /* variable */ }
extern "C" __global__ void inlined(int *a, int n) { a[0] = get(a, n); }
extern "C" __global__ void recursive(int *a, int n) { a[0] = sum(a, n); }
extern "C" __global__ void jump(int *a, long distance) { a[distance] = 5; /* jump */ }
extern "C" __global__ void fields(Image image) { image.pixels[image.cols] = 1; /* fields */ }
extern "C" __global__ void atomic(int *a, int n) { atomicAdd(&a[n], 1); /* atomic */ }
struct Large { int a[20]; };
extern "C" __global__ void copies(Large *to, const Large *from, int n) { to[0] = from[n]; /* copies */ }
extern "C" __global__ void null(int *a) { int *p = a ? (int *)8 : a; *p = 1; /* null */ }
typedef _BitInt(2048) Wide;
extern "C" __global__ void wide(Wide *a, int n) { a[0] = a[n] + 1; a[1] = 1; /* wide */ }
extern "C" __global__ void blocks(char *a, int from, int bytes) { memmove(a, a + from, bytes); memset(a + from, 1, bytes); /* blocks */ }
extern "C" __global__ void many(int *a, int n) {
    a[n] = 1; a[n + 1] += 2;
    a[n + 2] = 3;
}
extern "C" __global__ void twenty(int *a, int n) {
    a[n] = 1; a[n + 1] = 1; a[n + 2] = 1; a[n + 3] = 1; a[n + 4] = 1; a[n + 5] = 1; a[n + 6] = 1; a[n + 7] = 1; a[n + 8] = 1; a[n + 9] = 1;
    a[n + 10] = 1; a[n + 11] = 1; a[n + 12] = 1; a[n + 13] = 1; a[n + 14] = 1; a[n + 15] = 1; a[n + 16] = 1; a[n + 17] = 1; a[n + 18] = 1;
}
extern "C" __global__ void good(int *a, const int *b, Image image, int n) {
    __shared__ int s[32];
    int few[4] = {1, 2, 3, 4}, *p = n > 2 ? few : &table[1];
    s[threadIdx.x] = b[threadIdx.x] + table[threadIdx.x & 7] + p[n & 3];
    __syncthreads();
    int *q = threadIdx.x & 1 ? s : a;
    a[32 + threadIdx.x] = s[31 - threadIdx.x] + q[threadIdx.x] + sum(b, n);
    atomicAdd(&a[0], 1);
    image.pixels[image.cols - 1] = 2;
}
"""


def line_of(source: str, mark: str) -> int:
    return next(
        number for number, line in enumerate(source.splitlines(), 1) if f"// {mark}" in line or f"/* {mark}" in line
    )


def failure(gpu: Rig, name: str, *args: Any, block: int | tuple[int, int] = 32, grid: int = 2, shared: int = 0) -> str:
    with pytest.raises(LaunchError) as error:
        gpu.launch(name, grid, block, *args, shared=shared)
    assert error.value.status == Status.FAULT
    return str(error.value)


@pytest.fixture(scope="module")
def memory() -> Iterator[Rig]:
    with rig() as gpu:
        gpu.load(MEMORY, ("--memcheck",))
        yield gpu


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("row_before", 16, r"read of 4 bytes at 0x\w+, 64 bytes before the array of 256 bytes that 'image' points to, index -16"),
        ("behind", 64, "write of 4 bytes at .*, 8 bytes behind the end of the array of 256 bytes that 'a' points to, index 66"),
        ("tile", 40, "write of 4 bytes at .*, 0 bytes behind the end of shared array 'tile::first' of 256 bytes, index 64"),
        ("dynamic", None, "write of 4 bytes at .*, 0 bytes behind the end of dynamic shared array 'room' of 128 bytes, index 32"),
        ("own", 9, "read of 4 bytes at .*, 4 bytes behind the end of local variable 'mine' of 32 bytes, index 9"),
        ("own", -1, "read of 4 bytes at .*, 4 bytes before local variable 'mine' of 32 bytes, index -1"),
        ("variable", 11, "read of 4 bytes at .*, 12 bytes behind the end of variable 'table' of 32 bytes, index 11"),
        ("atomic", 64, "atomic operation of 4 bytes at .*, 0 bytes behind the end of the array of 256 bytes"),
        ("null", None, r"write of 4 bytes at 0x8, outside of all memory \(a null pointer\)"),
    ],
)  # fmt: skip
def test_access_outside_of_its_array_is_reported(memory: Rig, name: str, given: int | None, wanted: str) -> None:
    a, out = memory.array(64, np.int32, 1), memory.array(64, np.int32)
    extra = () if given is None else (np.int32(given),)
    args = (a, out, *extra) if name == "row_before" else (a, *extra)
    text = failure(memory, name, *args, shared=128 if name == "dynamic" else 0)
    assert re.match(f"memcheck: source.cu:{line_of(MEMORY, name)}:\\d+: {wanted}", text), text
    assert f"in kernel '{name}', block (" in text
    assert memory.take_output()[0].startswith(text.partition(";")[0])


def test_report_names_block_and_thread(memory: Rig) -> None:
    text = failure(memory, "behind", memory.array(64, np.int32), np.int32(64))
    assert "block (1,0,0), thread (3,0,0)" in text


def test_wrong_loads_give_zero_and_wrong_stores_have_no_effect(memory: Rig) -> None:
    x, out, near = memory.array(64, np.float32, 2), memory.array(64, np.float32), memory.array(64, np.int32, 9)
    failure(memory, "row_before", x, out, np.int32(16), block=64, grid=1)
    assert out.tolist() == [0.0] * 16 + [2.0] * 48
    distance = (near.ctypes.data - x.ctypes.data) // 4
    text = failure(memory, "jump", x, np.int64(distance))
    assert (near == 9).all(), "another array is not the one that the address was derived from"
    assert f"index {distance}" in text


def test_line_is_that_of_the_access(memory: Rig) -> None:
    a = memory.array(64, np.int32)
    assert f"source.cu:{line_of(MEMORY, 'get')}:" in failure(memory, "inlined", a, np.int32(70))
    assert f"source.cu:{line_of(MEMORY, 'sum')}:" in failure(memory, "recursive", a, np.int32(66))


def test_pointers_in_structs_and_copies_of_structs(memory: Rig) -> None:
    pixels = memory.array(10, np.float32)
    image = int(pixels.ctypes.data).to_bytes(8, "little") + (12).to_bytes(8, "little")
    text = failure(memory, "fields", image)
    assert re.search(f"source.cu:{line_of(MEMORY, 'fields')}:.* 8 bytes behind the end of .*of 40 bytes", text)
    to, source = memory.array(20, np.int32, 3), memory.array(40, np.int32, 4)
    text = failure(memory, "copies", to, source, np.int32(2), block=1, grid=1)
    assert re.search(f"source.cu:{line_of(MEMORY, 'copies')}:.*read of ", text)


def test_large_accesses_that_must_not_happen_end_the_launch(memory: Rig) -> None:
    a = memory.array(128, np.int32)
    memory.launch("wide", 1, 1, a, np.int32(0))
    assert (a[0], a[64]) == (1, 1)
    text = failure(memory, "wide", a, np.int32(2), block=1, grid=1)
    assert re.match(
        f"memcheck: source.cu:{line_of(MEMORY, 'wide')}:\\d+: read of 256 bytes at .*, 0 bytes behind", text
    )
    assert (a[0], a[64]) == (1, 1)


def test_copies_and_fills_of_any_length_that_must_not_happen_do_nothing(memory: Rig) -> None:
    a = memory.array(4096, np.uint8, np.arange(4096) % 251)
    failure(memory, "blocks", a, np.int32(2000), np.int32(3000), block=1, grid=1)
    assert (a == np.arange(4096) % 251).all()
    memory.launch("blocks", 1, 1, a, np.int32(2000), np.int32(2000))
    assert (a[:2000] == np.arange(2000, 4000) % 251).all()
    assert (a[2000:4000] == 1).all()


def test_every_place_is_reported_once_and_too_many_end_the_launch(memory: Rig) -> None:
    a = memory.array(64, np.int32)
    memory.take_output()
    assert "; 3 more in the program's output" in failure(memory, "many", a, np.int32(64))
    assert memory.take_output()[0].count("memcheck: ") == 4
    assert "15 more in the program's output, and the launch was stopped" in failure(memory, "twenty", a, np.int32(64))
    assert memory.take_output()[0].count("memcheck: ") == 16


def test_correct_kernel_computes_and_reports_nothing(memory: Rig) -> None:
    a, b, pixels = memory.array(64, np.int32), memory.array(32, np.int32, range(32)), memory.array(10, np.float32)
    image = int(pixels.ctypes.data).to_bytes(8, "little") + (10).to_bytes(8, "little")
    memory.take_output()
    memory.launch("good", 1, 32, a, b, image, np.int32(5))
    lanes = np.arange(32)
    wanted = 31 - lanes + 2 + np.where(lanes % 2 == 1, lanes + 2, 0) + 10
    assert (a[33:] - wanted[1:]).tolist() == [0] * 31
    assert a[0] == 32
    assert pixels[9] == 2
    assert memory.take_output()[0] == ""


RACES = r"""
extern "C" __global__ void reduce(const int *x, int *o, int skipped) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half)
            s[t] += s[t + half]; // reduce
        if (half != skipped) __syncthreads();
    }
    if (t == 0) o[0] = s[0];
}
extern "C" __global__ void reverse(int *o, int sync, unsigned mask) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t; // store
    if (sync) __syncwarp(mask);
    o[t] = s[31 - t]; // load
}
extern "C" __global__ void early(int *o) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    o[t] = s[t ^ 32]; // read_first
    s[t] = t; // write_last
}
extern "C" __global__ void both(int *o) {
    __shared__ int s;
    s = threadIdx.x; // both
    __syncthreads();
    o[threadIdx.x] = s;
}
extern "C" __global__ void count(int *o) {
    __shared__ int n;
    if (threadIdx.x == 0) n = 0; // clear
    atomicAdd(&n, 1); // add
    __syncthreads();
    o[threadIdx.x] = n;
}
extern "C" __global__ void bytes(int *o) {
    __shared__ unsigned char s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    o[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void pairs(int *o) {
    __shared__ int s[64];
    int t = threadIdx.x;
    unsigned quad = 0xfu << (t % 32 / 4 * 4);
    s[t] = t;
    __syncwarp(quad);
    int v = s[t ^ 1];
    __syncwarp(0xffffffff);
    s[t ^ 31] = v;
    __syncwarp();
    o[t] = s[t];
}
extern "C" __global__ void quads(int *o, unsigned other) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t; // quad_store
    __syncwarp(0xfu << (t % 32 / 4 * 4));
    o[t] = s[t ^ other]; // quad_load
}
extern "C" __global__ void fine(int *o, int n) {
    __shared__ int s[64], count, flag;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    flag = 1;
    __syncthreads();
    atomicAdd(&count, 1);
    s[t] = t;
    if (__syncthreads_or(t == 3))
        for (int i = 0; i < n; i++) {
            int v = s[(t + 1) % 64];
            __syncthreads();
            s[t] = v;
            __syncthreads();
        }
    volatile int *last = s;
    if (t < 32) { last[t] += last[t + 32]; last[t] += last[t + 16]; last[t] += last[t + 8]; last[t] += last[t + 4]; last[t] += last[t + 2]; last[t] += last[t + 1]; }
    __syncthreads();
    o[t] = s[0] + count + flag;
}
"""


@pytest.fixture(scope="module")
def races() -> Iterator[Rig]:
    with rig() as gpu:
        gpu.load(RACES, ("--racecheck",))
        yield gpu


def raced(gpu: Rig, name: str, threads: int, *args: Any) -> str:
    gpu.take_output()
    failure(gpu, name, *args, block=threads, grid=1)
    return gpu.take_output()[0]


def test_missing_barrier_is_reported_with_both_lines(races: Rig) -> None:
    x, out = races.array(128, np.int32, 1), races.array(128, np.int32)
    races.launch("reduce", 1, 128, x, out, np.int32(0))
    assert out[0] == 128
    line = line_of(RACES, "reduce")
    text = raced(races, "reduce", 128, x, out, np.int32(64))
    assert re.search(
        rf"racecheck: source.cu:{line}:\d+: write of 'reduce::s' .* by thread \(\d+,0,0\) conflicts with the read at "
        rf"source.cu:{line}:\d+ by thread \(\d+,0,0\): no barrier between them, in kernel 'reduce', block \(0,0,0\)",
        text,
    )
    assert "no barrier or __syncwarp() between them" in raced(races, "reduce", 128, x, out, np.int32(16))


def test_one_place_is_reported_once_however_often_it_is_unrolled() -> None:
    source = """
    extern "C" __global__ void product(const float *a, const float *b, float *c, int n) {
        __shared__ float left[16][16], right[16][16];
        int x = threadIdx.x, y = threadIdx.y;
        float sum = 0;
        for (int tile = 0; tile < n; tile += 16) {
            left[y][x] = a[y * n + tile + x];
            right[y][x] = b[(tile + y) * n + x];
            __syncthreads();
            for (int k = 0; k < 16; k++) sum += left[y][k] * right[k][x];
        }
        c[y * n + x] = sum;
    }
    """
    with rig() as gpu:
        gpu.load(source, ("--racecheck",))
        a, b, c = (gpu.array(64 * 64, np.float32, 1.0) for _ in range(3))
        failure(gpu, "product", a, b, c, np.int32(64), block=(16, 16), grid=1)
        text = gpu.take_output()[0]
    pairs = re.findall(r"source.cu:(\d+):\d+: (?:read|write) .* at source.cu:(\d+):", text)
    assert sorted(sorted(map(int, pair)) for pair in pairs) == [[7, 10], [8, 10]], text


def test_lanes_that_do_not_wait_for_each_other(races: Rig) -> None:
    out = races.array(32, np.int32)
    races.launch("reverse", 1, 32, out, np.int32(1), np.uint32(0xFFFFFFFF))
    text = raced(races, "reverse", 32, out, np.int32(0), np.uint32(0))
    assert {f":{line_of(RACES, mark)}:" in text for mark in ("store", "load")} == {True}
    assert "no barrier or __syncwarp()" in text


def test_groups_of_lanes_wait_only_for_their_own(races: Rig) -> None:
    out = races.array(64, np.int32)
    races.launch("quads", 1, 64, out, np.uint32(3))
    assert out.tolist() == [t ^ 3 for t in range(64)]
    text = raced(races, "quads", 64, out, np.uint32(4))
    assert {f":{line_of(RACES, mark)}:" in text for mark in ("quad_store", "quad_load")} == {True}
    assert "no barrier or __syncwarp()" in text


def test_conflict_does_not_depend_on_the_order_of_execution(races: Rig) -> None:
    out = races.array(64, np.int32)
    text = raced(races, "early", 64, out)
    assert {f":{line_of(RACES, mark)}:" in text for mark in ("read_first", "write_last")} == {True}
    assert f":{line_of(RACES, 'both')}:" in raced(races, "both", 64, out)
    text = raced(races, "count", 64, out)
    assert {f":{line_of(RACES, mark)}:" in text for mark in ("clear", "add")} == {True}


@pytest.mark.parametrize("name", ["bytes", "pairs", "fine"])
def test_correct_kernels_have_no_races(races: Rig, name: str) -> None:
    out = races.array(64, np.int32)
    races.launch(name, 3, 64, out, *((np.int32(3),) if name == "fine" else ()))
    assert races.take_output()[0] == ""
    assert out[5] == {"bytes": 1, "pairs": 5 ^ 31 ^ 1, "fine": 2016 + 64 + 1}[name]


def test_programs_in_lockstep_race_between_warps_only() -> None:
    with rig() as gpu:
        gpu.load(RACES, ("--racecheck", "--lockstep"))
        out = gpu.array(64, np.int32)
        gpu.launch("reverse", 1, 32, out, np.int32(0), np.uint32(0))
        assert out[:32].tolist() == list(range(31, -1, -1))
        assert "no barrier between them" in failure(gpu, "early", out, block=64)


UNWRITTEN = r"""
extern "C" __global__ void part(const int *a, int *o) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < 40) s[t] = a[t];
    __syncthreads();
    o[t] = s[t]; // part
}
extern "C" __global__ void use(int *fresh, int *o) { o[threadIdx.x] = fresh[threadIdx.x]; /* use */ }
extern "C" __global__ void set(int *fresh, int n) { if (threadIdx.x < n) fresh[threadIdx.x] = 1; }
extern "C" __global__ void add(int *fresh) { atomicAdd(&fresh[threadIdx.x], 1); /* add */ }
"""


def fill(gpu: Rig, array: Any, size: int) -> None:
    op = ffi.new("struct vgc_op *")
    op.kind, op.context, op.dst, op.size, op.value, op.unit = lib.VGC_OPK_FILL, 1, array.ctypes.data, size, 1, 4
    assert gpu.submit(op) == Status.OK


def test_reads_of_memory_that_was_never_written() -> None:
    with rig() as gpu:
        before = gpu.array(64, np.int32)
        gpu.load(UNWRITTEN, ("--initcheck",))
        fresh, out = gpu.array(64, np.int32), gpu.array(64, np.int32)
        gpu.launch("use", 1, 64, before, out)  # allocated before the program was loaded: not known
        text = failure(gpu, "use", fresh, out, block=64)
        assert re.match(rf"initcheck: source.cu:{line_of(UNWRITTEN, 'use')}:\d+: read of 4 bytes at .* 'fresh'", text)
        gpu.launch("set", 1, 64, fresh, np.int32(63))
        assert "thread (63,0,0)" in failure(gpu, "use", fresh, out, block=64)
        fill(gpu, fresh, 256)
        gpu.launch("use", 1, 64, fresh, out)
        assert "atomic operation" not in failure(gpu, "add", gpu.array(64, np.int32), block=1)
        text = failure(gpu, "part", fresh, out, block=64)
        assert re.match(rf"initcheck: source.cu:{line_of(UNWRITTEN, 'part')}:.* 'part::s' \(byte 160 of", text)


def test_kernels_of_other_programs_may_write_anything() -> None:
    with rig() as gpu:
        gpu.load(UNWRITTEN, ("--initcheck",))
        fresh, out = gpu.array(64, np.int32), gpu.array(64, np.int32)
        use = gpu.functions["use"]
        gpu.load(UNWRITTEN)
        gpu.launch("set", 1, 64, fresh, np.int32(64))
        gpu.functions["use"] = use
        gpu.launch("use", 1, 64, fresh, out)


OWN = r"""
extern "C" __global__ void table(const int *in, int *o, int n) {
    int s[16];
    for (int i = 0; i < n; i++) s[in[i]] = i;
    o[threadIdx.x] = s[in[threadIdx.x]]; // table
}
extern "C" __global__ void waits(const int *in, int *o, int n) {
    int s[16];
    for (int i = 0; i < n; i++) s[in[i]] = i;
    __syncthreads();
    o[threadIdx.x] = s[in[threadIdx.x]]; // waits
}
extern "C" __global__ void rounds(const int *in, int *o, int n) {
    int sum = 0;
    for (int k = 0; k < 3; k++) {
        int s[16];
        if (k == 0) for (int i = 0; i < n; i++) s[in[i]] = i;
        sum += s[in[k]]; // rounds
    }
    o[threadIdx.x] = sum;
}
struct Bits { unsigned a : 3, is_set : 1, b : 20; };
extern "C" __global__ void bits(const int *in, int *o, int n) {
    __shared__ Bits shared[16];
    Bits s[16];
    for (int i = 0; i < n; i++) s[in[i]].a = i;
    for (int i = 0; i < n; i++) s[in[i]].is_set = 1;
    shared[threadIdx.x].b = threadIdx.x;
    o[threadIdx.x] = s[in[threadIdx.x]].a + 8 * s[in[threadIdx.x]].is_set + 16 * shared[threadIdx.x].b; // bits
}
struct Padded { char a; int b; };
extern "C" __global__ void padded(const int *in, int *o, int n) {
    Padded s[4], t[4];
    for (int i = 0; i < 4; i++) { s[in[i]].a = i; s[in[i]].b = 2 * i; }
    for (int i = 0; i < 4; i++) t[in[i]] = s[i];
    o[threadIdx.x] = t[in[threadIdx.x]].a + t[in[threadIdx.x]].b;
}
extern "C" __global__ void escapes(const int *in, int *o, int n) {
    int s[16];
    int *volatile pointer = s;
    for (int i = 0; i < n; i++) pointer[in[i]] = i;
    o[threadIdx.x] = s[in[threadIdx.x]];
}
extern "C" __global__ void block(const int *in, int *o, int n) {
    int *p = (int *)malloc(40);
    for (int i = 0; i < n; i++) p[in[i]] = i;
    o[threadIdx.x] = p[in[5]]; // block
    free(p);
}
extern "C" __global__ void again(const int *in, int *o, int n) {
    for (int round = 0; round < 2; round++) {
        int *p = new int[10];
        if (round == 0) for (int i = 0; i < n; i++) p[in[i]] = i;
        o[threadIdx.x] = p[in[5]]; // again
        delete[] p;
    }
}
extern "C" __global__ void beyond(const int *in, int *o, int n) {
    int *p = (int *)malloc(40);
    p[n] = 3; // beyond
    free(p);
}
extern "C" __global__ void keep(const int *in, int *o, int n) {
    int *p = (int *)malloc(n); // keep
    if (p) *p = 1;
    if (threadIdx.x % 2) free(p);
}
"""


@pytest.fixture(scope="module")
def own() -> Iterator[tuple[Rig, Any, Any]]:
    with rig() as gpu:
        given, out = gpu.array(16, np.int32, range(16)), gpu.array(16, np.int32)  # known: from before the program
        gpu.load(OWN, ("--memcheck", "--initcheck", "--leak-check"))
        yield gpu, given, out


@pytest.mark.parametrize("name", ["table", "waits"])
def test_reads_of_locals_that_were_never_written(own: tuple[Rig, Any, Any], name: str) -> None:
    gpu, given, out = own
    gpu.launch(name, 1, 16, given, out, np.int32(16))
    assert out.tolist() == list(range(16))
    with pytest.raises(LaunchError) as error:
        gpu.launch(name, 2, 16, given, out, np.int32(12))
    text = str(error.value)
    line = line_of(OWN, name)
    assert re.match(rf"initcheck: source.cu:{line}:\d+: read of 4 bytes of local variable 's' \(byte 48 of 64\)", text)
    assert "thread (12,0,0)" in text


def test_a_local_of_a_loop_is_new_in_each_round(own: tuple[Rig, Any, Any]) -> None:
    gpu, given, out = own
    with pytest.raises(LaunchError, match=f"source.cu:{line_of(OWN, 'rounds')}:.*local variable 's'"):
        gpu.launch("rounds", 1, 1, given, out, np.int32(16))


def test_padding_and_locals_with_known_addresses_are_not_reported(own: tuple[Rig, Any, Any]) -> None:
    gpu, given, out = own
    gpu.launch("padded", 1, 4, given, out, np.int32(4))
    assert out[:4].tolist() == [0, 3, 6, 9]
    gpu.launch("escapes", 1, 16, given, out, np.int32(16))


def test_stores_to_bit_fields_are_no_reads(own: tuple[Rig, Any, Any]) -> None:
    gpu, given, out = own
    gpu.launch("bits", 1, 8, given, out, np.int32(8))
    assert out[:8].tolist() == [i + 8 + 16 * i for i in range(8)]
    with pytest.raises(LaunchError, match=rf"initcheck: source.cu:{line_of(OWN, 'bits')}:.*byte 48 of 64"):
        gpu.launch("bits", 1, 16, given, out, np.int32(12))


def test_blocks_of_malloc_are_unwritten_until_written(own: tuple[Rig, Any, Any]) -> None:
    gpu, given, out = own
    gpu.launch("block", 1, 8, given, out, np.int32(6))
    for name in ("block", "again"):
        with pytest.raises(LaunchError) as error:
            gpu.launch(name, 1, 8, given, out, np.int32(5 if name == "block" else 6))
        assert re.match(
            rf"initcheck: source.cu:{line_of(OWN, name)}:\d+: read of 4 bytes at 0x\w+ that", str(error.value)
        )


def test_accesses_behind_blocks_of_malloc_are_found(own: tuple[Rig, Any, Any]) -> None:
    gpu, given, out = own
    gpu.launch("beyond", 1, 8, given, out, np.int32(9))
    with pytest.raises(LaunchError, match=r"0 bytes behind the end of an array of 40 bytes at 0x\w+, index 10"):
        gpu.launch("beyond", 1, 8, given, out, np.int32(10))


FREED = r"""
__device__ int *kept;
extern "C" __global__ void read(int *o, int n) {
    int *p = (int *)malloc(40);
    p[n] = 3;
    free(p); // freed
    o[0] = p[n]; // read
}
extern "C" __global__ void write(int *o, int n) {
    if (threadIdx.x == 0) { kept = new int[10]; delete[] kept; }
    __syncthreads();
    atomicAdd(kept + n, 1); // write
}
extern "C" __global__ void later(int *o, int n) { o[0] = kept[n]; /* later */ }
extern "C" __global__ void twice(int *o, int n) {
    int *p = (int *)malloc(40), *q = (int *)malloc(40);
    for (int i = 0; i < n; i++) free(p); // twice
    free(q);
    o[0] = n;
}
extern "C" __global__ void rounds(int *o, int n) {
    for (int i = 0; i < n; i++) {
        int *p = (int *)malloc(4 << i % 17);
        if (!p) { o[0] = i; return; }
        p[i % 3 ? 0 : (1 << i % 17) - 1] = i;
        free(p);
    }
    o[0] = n;
}
extern "C" __global__ void whole(int *o, int n) { // nearly all of the heap, again and again
    for (int i = 0; i < n; i++) {
        char *p = (char *)malloc(i % 2 ? 1 << 20 : 7 << 20);
        if (!p) { o[0] = i; return; }
        p[0] = 1;
        free(p);
    }
    o[0] = n;
}
"""


@pytest.fixture(scope="module")
def freed() -> Iterator[tuple[Rig, Any]]:
    with rig() as gpu:
        gpu.load(FREED, ("--memcheck", "--leak-check"))
        yield gpu, gpu.array(16, np.int32)


def test_accesses_to_freed_blocks_are_reported(freed: tuple[Rig, Any]) -> None:
    gpu, out = freed
    out[0] = 9
    where = (
        rf"in a block of 40 bytes that was freed at source.cu:{line_of(FREED, 'freed')}:\d+, index 3, in kernel 'read'"
    )
    text = failure(gpu, "read", out, np.int32(3), block=1, grid=1)
    assert re.match(rf"memcheck: source.cu:{line_of(FREED, 'read')}:\d+: read of 4 bytes at 0x\w+, {where}", text), text
    assert out[0] == 0
    text = failure(gpu, "read", out, np.int32(11), block=1, grid=1)
    assert "behind the end of" in text


def test_freed_blocks_are_known_to_other_threads_and_launches(freed: tuple[Rig, Any]) -> None:
    gpu, out = freed
    freed_in = f"in a block of 40 bytes that was freed at source.cu:{line_of(FREED, 'write') - 2}:"
    text = failure(gpu, "write", out, np.int32(2), block=64, grid=1)
    assert re.match(rf"memcheck: source.cu:{line_of(FREED, 'write')}:\d+: atomic operation of 4 bytes at", text), text
    assert freed_in in text
    text = failure(gpu, "later", out, np.int32(2), block=1, grid=1)
    assert re.match(rf"memcheck: source.cu:{line_of(FREED, 'later')}:\d+: read of 4 bytes", text), text
    assert freed_in in text


def test_a_second_free_is_reported_with_the_place_of_the_first(freed: tuple[Rig, Any]) -> None:
    gpu, out = freed
    gpu.launch("twice", 1, 1, out, np.int32(1))
    text = failure(gpu, "twice", out, np.int32(2), block=1, grid=1)
    place = rf"source.cu:{line_of(FREED, 'twice')}:\d+"
    wanted = rf"memcheck: {place}: free\(\) of 0x\w+, a block of 40 bytes that was freed at {place}, in kernel 'twice'"
    assert re.match(wanted, text), text
    assert out[0] == 2


@pytest.mark.parametrize("name", ["rounds", "whole"])
def test_the_heap_does_not_run_out_of_freed_blocks(freed: tuple[Rig, Any], name: str) -> None:
    gpu, out = freed
    for _ in range(2):
        gpu.launch(name, 1, 1, out, np.int32(5000))
        assert out[0] == 5000


def test_freed_blocks_are_no_leaks_and_go_with_their_program() -> None:
    with rig() as gpu:
        out = gpu.array(16, np.int32)
        for _ in range(2):
            program = gpu.load(FREED, ("--memcheck", "--leak-check"))
            other = gpu.load(FREED.replace(" void ", " void other_"), ("--memcheck",))
            gpu.launch("rounds", 2, 8, out, np.int32(50))
            gpu.launch("other_rounds", 2, 8, out, np.int32(50))
            gpu.engine.unload_program(program)
            gpu.programs.remove(program)
            gpu.launch("other_rounds", 1, 1, out, np.int32(3000))
            assert out[0] == 3000
            gpu.engine.unload_program(other)
            gpu.programs.remove(other)
            assert gpu.take_output()[0] == ""


@pytest.mark.parametrize("options", [("--leak-check",), ("--memcheck", "--leak-check"), ("--memcheck",)])
def test_blocks_that_are_not_freed_are_reported_when_the_program_is_unloaded(options: tuple[str, ...]) -> None:
    with rig() as gpu:
        given, out = gpu.array(16, np.int32), gpu.array(16, np.int32)
        program = gpu.load(OWN, options)
        for _ in range(2):
            gpu.launch("keep", 3, 16, given, out, np.int32(24))
        assert gpu.take_output()[0] == ""
        gpu.engine.unload_program(program)
        gpu.programs.remove(program)
        text = gpu.take_output()[0]
        where = (
            rf"leak-check: source.cu:{line_of(OWN, 'keep')}:\d+: 1152 bytes in 48 blocks of malloc\(\) were never freed"
        )
        if "--leak-check" in options:
            assert re.fullmatch(rf"{where}, the first at 0x\w+ by kernel 'keep'\n", text)
        else:
            assert text == ""


STRIPS = r"""
extern "C" __global__ void turned(int *o) {
    __shared__ int s[16];
    int t = threadIdx.x + 4 * threadIdx.y;
    s[t] = blockIdx.x * 100 + t;
    __syncthreads();
    o[blockIdx.x * 16 + t] = s[15 - t];
}
extern "C" __global__ void leak(int n) { for (int i = 0; i < n; i++) malloc(16); }
"""


@pytest.mark.parametrize("check", ["--memcheck", "--initcheck", "--racecheck", "--leak-check"])
def test_small_blocks_are_checked_one_by_one(check: str) -> None:
    """Neighbouring blocks run as one only where the compiler has prepared a kernel for that (`strips.cpp`)."""
    with rig(pes=1) as gpu:
        gpu.load(STRIPS, (check,))
        out = gpu.array((1000, 16), np.int32, -1)
        gpu.launch("turned", 1000, (4, 4), out)
        assert np.array_equal(out, np.arange(1000)[:, None] * 100 + 15 - np.arange(16))


def test_as_many_leaks_as_are_noted_are_counted() -> None:
    with rig(pes=1) as gpu:
        program = gpu.load(STRIPS, ("--leak-check",))
        gpu.launch("leak", 1, 1, np.int32((1 << 16) + 5))
        gpu.engine.unload_program(program)
        gpu.programs.remove(program)
        counted, others = gpu.take_output()[0].splitlines()
        assert "1048576 bytes in 65536 blocks" in counted
        assert others == "leak-check: blocks that were given while as many were in use are not counted"


def test_leaks_of_more_places_than_are_listed_are_summed_up() -> None:
    mallocs = "\n".join(f"if (n > {i}) malloc({i + 1});" for i in range(40))
    with rig() as gpu:
        program = gpu.load(f'extern "C" __global__ void places(int n) {{\n{mallocs}\n}}', ("--leak-check",))
        gpu.launch("places", 1, 1, np.int32(40))
        gpu.engine.unload_program(program)
        gpu.programs.remove(program)
        *lines, others = gpu.take_output()[0].splitlines()
    listed = [re.match(r"leak-check: source.cu:(\d+):\d+: (\d+) bytes in 1 block ", line) for line in lines]
    places = [(int(line[1]), int(line[2])) for line in listed if line is not None]
    assert len(places) == 32
    assert all(line == size + 1 for line, size in places)
    left = sum(range(1, 41)) - sum(size for _, size in places)
    assert others == f"leak-check: {left} bytes in 8 blocks of other places, too"


LAUNCHES = r"""
extern "C" __global__ void child(int *o, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = t;
    if (n == 0) __syncwarp();
    o[t + n] += s[t ^ 1]; // child
}
extern "C" __global__ void parent(int *o, int n, int tail) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = 2 * t; // store
    if (t == 0 && !tail) child<<<1, 32, 128>>>(o, n);
    if (t == 0 && tail) child<<<1, 32, 128, cudaStreamTailLaunch>>>(o, n);
    __syncwarp(n == 2 ? 1u << t : ~0u);
    o[t] += s[31 - t]; // load
}
"""


@pytest.fixture(scope="module")
def launches() -> Iterator[Rig]:
    with rig() as gpu:
        gpu.load(LAUNCHES, ("--memcheck", "--racecheck", "--initcheck"))
        yield gpu


@pytest.mark.parametrize("tail", [0, 1])
def test_grids_that_kernels_launch_are_checked(launches: Rig, tail: int) -> None:
    out = launches.array(32, np.int32)
    fill(launches, out, 128)
    launches.launch("parent", 1, 32, out, np.int32(0), np.int32(tail))
    lanes = np.arange(32)
    assert out.tolist() == (1 + 2 * (31 - lanes) + (lanes ^ 1)).tolist()
    launches.take_output()
    failure(launches, "parent", out, np.int32(1), np.int32(tail), grid=1)
    text = launches.take_output()[0]
    line = line_of(LAUNCHES, "child")
    assert re.search(rf"racecheck: source.cu:{line}:\d+: .* in kernel 'child'", text) or re.search(
        rf"racecheck: .* at source.cu:{line}:\d+ .* in kernel 'child'", text
    ), text
    assert re.search(rf"memcheck: source.cu:{line}:\d+: .*'o' points to, index 32, in kernel 'child'", text), text
    assert "in kernel 'parent'" not in text


def test_kernels_that_launch_are_checked_beside_their_children(launches: Rig) -> None:
    out = launches.array(34, np.int32)
    fill(launches, out, 136)
    launches.take_output()
    failure(launches, "parent", out, np.int32(2), np.int32(0), grid=1)
    text = launches.take_output()[0]
    assert {f":{line_of(LAUNCHES, mark)}:" in text for mark in ("store", "load")} == {True}
    assert "in kernel 'parent'" in text


def test_all_checks_together_accept_correct_kernels() -> None:
    with rig() as gpu:
        gpu.load(RACES, ("--memcheck", "--racecheck", "--initcheck"))
        out = gpu.array(64, np.int32)
        gpu.launch("fine", 2, 64, out, np.int32(3))
        assert out[0] == 2016 + 64 + 1


def test_kernels_without_checks_call_nothing() -> None:
    from tests.unit.cpu_rig import compile_image

    assert b"__vgc_check\0" in compile_image(RACES, ("--racecheck",))[0]
    assert b"__vgc_check\0" not in compile_image(RACES)[0]
