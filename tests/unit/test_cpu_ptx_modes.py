"""PTX modules with the options that check, order or measure programs: as good as CUDA C."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from tests.unit.cpu_rig import LaunchError, Rig, rig
from tests.unit.ptx_compilers import needs_nvrtc, nvrtc_ptx
from tests.unit.test_cpu_checks import line_of

SOURCE = r"""
__device__ int table[8];
__device__ __noinline__ int sum(const int *p, int n) {
    return n == 0 ? 0 : p[n - 1] + sum(p, n - 1); // sum
}
extern "C" __global__ void before(const int *a, int *out, int distance) {
    out[threadIdx.x] = a[(int)threadIdx.x - distance]; // before
}
extern "C" __global__ void behind(int *a, int n) {
    if (threadIdx.x == 3)
        a[n + 2] = 1; // behind
}
extern "C" __global__ void tile(int *a, int n) {
    __shared__ int s[64];
    s[threadIdx.x + n] = threadIdx.x; // tile
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void dynamic(int *a, int n) {
    extern __shared__ int room[];
    room[threadIdx.x + n] = 2; // dynamic
    a[threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void own(int *a, int n) {
    int mine[8];
    for (int i = 0; i < 8; i++) mine[i] = a[i];
    a[threadIdx.x] = mine[n]; // own
}
extern "C" __global__ void variable(int *a, int n) { a[0] = table[n]; /* variable */ }
extern "C" __global__ void called(int *a, int n) { a[0] = sum(a, n); }
extern "C" __global__ void races(int *a, int n) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x; // write
    a[threadIdx.x] = s[63 - threadIdx.x]; // read
}
extern "C" __global__ void unwritten(int *a, const int *b) {
    a[threadIdx.x] = b[threadIdx.x]; // unwritten
}
extern "C" __global__ void leaks(int **a) {
    if (threadIdx.x == 0)
        a[0] = (int *)malloc(40); // leaks
}
extern "C" __global__ void warps(int *a, int n) { /* right in lockstep only: no __syncwarp() */
    __shared__ volatile int s[64];
    s[threadIdx.x] = a[threadIdx.x];
    int other = s[threadIdx.x ^ n];
    s[threadIdx.x] = other + 1;
    a[threadIdx.x] = s[threadIdx.x ^ n];
}
extern "C" __global__ void good(int *a, const int *b) {
    __shared__ int s[64];
    int few[4] = {1, 2, 3, 4};
    s[threadIdx.x] = b[threadIdx.x] + few[b[threadIdx.x] & 3];
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void hot(float *a, int n) {
    float x = a[threadIdx.x];
    for (int i = 0; i < n; i++)
        x = x / (1.0f + x * x); // hot
    a[threadIdx.x] = x;
}
"""
THREADS = 64

pytestmark = needs_nvrtc

Start = Callable[..., Rig]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Rigs with the module, by its options."""
    module = nvrtc_ptx(SOURCE, "-lineinfo")
    rigs: dict[tuple[str, ...], Rig] = {}
    with ExitStack() as stack:

        def started(*options: str) -> Rig:
            if options not in rigs:
                rigs[options] = stack.enter_context(rig(pes=1))
                rigs[options].load_ptx(module, options)
            return rigs[options]

        yield started


def failure(gpu: Rig, name: str, *args: object, shared: int = 0) -> str:
    with pytest.raises(LaunchError) as error:
        gpu.launch(name, 1, THREADS, *args, shared=shared)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "given", "line", "wanted"),
    [
        ("before", 16, "before", "read of 4 bytes at .*, 64 bytes before an array of 256 bytes at .*, index -16"),
        (
            "behind",
            64,
            "behind",
            "write of 4 bytes at .*, 8 bytes behind the end of an array of 256 bytes .*, index 66",
        ),
        ("tile", 40, "tile", "write of 4 bytes at .*, 0 bytes behind the end of shared array 'tile::s' of 256 bytes"),
        ("dynamic", 9, "dynamic", "write of 4 bytes at .* dynamic shared array 'room' of 256 bytes, index 64"),
        ("own", 9, "own", "read of 4 bytes at .*, 4 bytes behind the end of local variable '.*' of 32 bytes, index 9"),
        ("variable", 9, "variable", "read of 4 bytes at .*, 4 bytes behind the end of variable 'table' of 32 bytes"),
        ("called", 70, "sum", "read of 4 bytes at .*, 20 bytes behind the end of an array of 256 bytes"),
    ],
)
def test_wrong_accesses_are_reported_with_their_lines(
    start: Start, name: str, given: int, line: str, wanted: str
) -> None:
    gpu = start("--memcheck")
    out = [gpu.array(THREADS, np.int32)] if name == "before" else []
    text = failure(
        gpu, name, gpu.array(THREADS, np.int32), *out, np.int32(given), shared=256 if name == "dynamic" else 0
    )
    assert re.search(rf"memcheck: .*source\.cu:{line_of(SOURCE, line)}:\d+: {wanted}", text), text
    assert f"in kernel '{name}', block (0,0,0), thread (" in text


def test_races_are_reported_with_both_lines(start: Start) -> None:
    text = failure(start("--racecheck"), "races", start("--racecheck").array(THREADS, np.int32), np.int32(0))
    write, read = line_of(SOURCE, "write"), line_of(SOURCE, "read")
    assert re.search(
        rf"racecheck: .*source\.cu:{write}:\d+: write of 'races::s' .* conflicts with the read at .*source\.cu:{read}:\d+",
        text,
    ), text


def test_reads_of_what_was_never_written_are_reported(start: Start) -> None:
    gpu = start("--initcheck")
    text = failure(gpu, "unwritten", gpu.array(THREADS, np.int32), np.uint64(gpu.alloc(4 * THREADS)))
    assert re.search(rf"initcheck: .*source\.cu:{line_of(SOURCE, 'unwritten')}:\d+: read of 4 bytes", text), text


@pytest.mark.parametrize("options", [(), ("--memcheck", "--racecheck"), ("--lockstep",), ("--profile",), ("-G",)])
def test_right_kernels_compute_and_report_nothing(start: Start, options: tuple[str, ...]) -> None:
    gpu = start(*options)
    values = np.arange(THREADS, dtype=np.int32) * 5
    out = gpu.array(THREADS, np.int32)
    gpu.launch("good", 1, THREADS, out, gpu.array(THREADS, np.int32, values))
    assert out.tolist() == (values + (values & 3) + 1)[::-1].tolist()


def test_warps_in_lockstep(start: Start) -> None:
    gpu = start("--lockstep")
    values = np.arange(THREADS, dtype=np.int32) * 3
    out = gpu.array(THREADS, np.int32, values)
    gpu.launch("warps", 1, THREADS, out, np.int32(5))
    assert out.tolist() == (values + 1).tolist()


def test_profiles_name_the_lines_of_the_source(start: Start) -> None:
    gpu, rounds, text = start("--profile"), 100_000, ""
    while not (found := re.search(r"profile: \S*source\.cu:(\d+): (\d+) of (\d+) samples in kernel 'hot'", text)):
        gpu.launch("hot", 4, THREADS, gpu.array(THREADS, np.float32, 1.5), np.int32(rounds))
        text, rounds = gpu.take_output()[0], 2 * rounds
    assert int(found[1]) in (line_of(SOURCE, "hot") - 1, line_of(SOURCE, "hot")), text


def test_memory_that_is_not_freed_is_reported() -> None:
    with rig(pes=1) as gpu:
        program = gpu.load_ptx(nvrtc_ptx(SOURCE, "-lineinfo"), ("--leak-check",))
        gpu.launch("leaks", 1, THREADS, gpu.array(1, np.uint64))
        gpu.engine.unload_program(program)
        gpu.programs.remove(program)
        text = gpu.take_output()[0]
    where = rf"leak-check: \S*source\.cu:{line_of(SOURCE, 'leaks')}:\d+: 40 bytes in 1 block of malloc\(\)"
    assert re.search(where, text), text


NEAREST = """.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry tiles(.param .u64 o)
{
  .reg .b32 r, s, l; .reg .b64 d;
  ld.param.u64 d, [o]; mov.u32 l, %tid.x; mov.u32 s, room; shl.b32 l, l, 4; add.u32 s, s, l;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [s];
  st.global.u32 [d], r; ret;
}
.visible .entry null(.param .u64 o)
{
  .reg .b64 d;
  ld.param.u64 d, [o];
  st.global.u32 [d + 8], 7; ret;
}
"""


def test_addresses_in_no_memory_are_told_by_the_nearest() -> None:
    with rig(pes=1) as gpu:
        gpu.load_ptx(NEAREST, ["--memcheck"])
        out = gpu.array(4, np.uint32)
        text = failure(gpu, "tiles", out, shared=64)
        assert re.search(r"module\.ptx:9:\d+: .* bytes behind the end of 64 bytes of the block's own memory", text), (
            text
        )
        text = failure(gpu, "null", np.uint64(0))
        assert re.search(
            r"module\.ptx:16:\d+: write of 4 bytes at 0x8, outside of all memory \(a null pointer\)", text
        ), text
