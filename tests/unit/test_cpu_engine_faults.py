"""Faults of guest code end the worker, whose last words name the thread at fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cpu_rig import compile_image
from vhost_backend._dataplane import lib
from vhost_backend.daemon.inflight import BlackBox, InflightMemory
from virtio_proto.schema import Status

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("cpu_features.cu").read_text()

GRID = r"""
#include <cooperative_groups.h>
extern "C" __global__ void overrun(int *out) {
    __shared__ int cells[64];
    cells[threadIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    out[threadIdx.x] = ((volatile int *)cells)[64 * threadIdx.x];
}
"""

CHILDREN = r"""
extern "C" __global__ void child(int *x, int who) { if (threadIdx.x == who) x[1 << 28] = blockIdx.x; }
extern "C" __global__ void parent(int *x, int who) { if (threadIdx.x == 3) child<<<4, 32>>>(x, who); }
"""


LEAPS = r"""
__device__ int leap(int depth) {
    volatile int frame[15000];
    frame[depth % 7] = depth;
    const int below = depth ? leap(depth - 1) : 0;
    return frame[depth % 7] + below;
}
extern "C" __global__ void unbounded(int *x, int n) { // memory of alloca() that the stack has no room for
    volatile char *memory = (volatile char *)alloca((size_t)n << 20);
    memory[0] = 1;
    x[0] = memory[0];
}
extern "C" __global__ void leaps(int *x, int depth) { x[0] = leap(depth); }
"""


STRIP = r"""
extern "C" __global__ void strip(int *x, int who) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i == who ? 1 << 28 : i] = i;
}
extern "C" __global__ void strip_of_loops(int *x, int who) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = 0; k < x[i % 3] + i % 5 + 2; k++) sum += x[(i + k * k) % 32 + (i == who ? 1 << 28 : 0)];
    x[i] = sum;
}
"""


IMPOSSIBLE = r"""
extern "C" __global__ void impossible(int *x, int n) { __builtin_unreachable(); }
extern "C" __global__ void possible(int *x, int n) { x[threadIdx.x] = n; }
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "image"
    path.write_bytes(compile_image(SOURCE)[0])
    return path


@pytest.fixture
def inflight() -> Iterator[InflightMemory]:
    with InflightMemory() as memory:
        yield memory


def crash(inflight: InflightMemory, image: Path, kernel: str, threads: int | str, *arguments: str) -> BlackBox:
    """Runs the kernel in a process of its own, which must die; returns its last words."""
    os.set_inheritable(inflight.fd, True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.cpu_fault_child", str(inflight.fd), image, kernel, str(threads), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        close_fds=False,
        check=False,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == lib.VGC_EXIT_FATAL, done.stdout + done.stderr
    box = inflight.black_box()
    assert box is not None
    assert box.status == Status.FAULT
    return box


@pytest.mark.parametrize("thread", [0, 5, 63])
def test_wild_store_names_its_thread(inflight: InflightMemory, image: Path, thread: int) -> None:
    box = crash(inflight, image, "out_of_bounds", 64, "x", str(thread))
    assert box.text.startswith("invalid address 0x")
    assert box.text.endswith(f"kernel 'out_of_bounds', block (0,0,0), thread ({thread},0,0)")


def test_first_byte_past_an_allocation_is_out_of_bounds(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "just_past", 129, "x", "1")
    assert "block (1,0,0), thread (127,0,0)" in box.text


def test_page_before_an_allocation_is_out_of_bounds(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "page_before", 64, "x", "1024")
    assert box.text.endswith("kernel 'page_before', block (0,0,0), thread (0,0,0)")


def test_wild_store_in_a_vectorised_loop_names_its_thread(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "wild_in_loop", 64, "x", "77")
    assert box.text.endswith("kernel 'wild_in_loop', block (1,0,0), thread (13,0,0)")


@pytest.mark.parametrize("who", [0, 77, 127])
def test_wild_access_in_blocks_that_run_as_one_names_its_block(
    inflight: InflightMemory, tmp_path: Path, who: int
) -> None:
    path = tmp_path / "image"
    path.write_bytes(compile_image(STRIP)[0])
    thread = f"block ({who // 4},0,0), thread ({who % 4},0,0)"
    assert crash(inflight, path, "strip", "32*4", "x", str(who)).text.endswith(f"kernel 'strip', {thread}")
    assert f"kernel 'strip_of_loops', {thread}" in crash(inflight, path, "strip_of_loops", "32*4", "x", str(who)).text


def test_division_by_zero(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "divide", 64, "x", "40")
    assert box.text == "integer division by zero in kernel 'divide', block (0,0,0), thread (40,0,0)"


def test_kernel_that_cannot_be_right_does_not_run_into_another(inflight: InflightMemory, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(compile_image(IMPOSSIBLE)[0])
    box = crash(inflight, image, "impossible", 4, "x", "1")
    assert box.text == "illegal instruction in kernel 'impossible', block (0,0,0), thread (0,0,0)"


@pytest.mark.parametrize("mebibytes", ["64", "1000000"])
def test_more_of_alloca_than_the_stack_has(inflight: InflightMemory, tmp_path: Path, mebibytes: str) -> None:
    image = tmp_path / "image"
    image.write_bytes(compile_image(LEAPS)[0])
    box = crash(inflight, image, "unbounded", 4, "x", mebibytes)
    assert box.text.startswith("stack overflow 0x")
    assert box.text.endswith("kernel 'unbounded', block (0,0,0), thread (0,0,0)")


def test_stack_overflow(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "overflow", 4, "x")
    assert box.text.startswith("stack overflow 0x")
    assert box.text.endswith("kernel 'overflow', block (0,0,0), thread (0,0,0)")


@pytest.mark.parametrize("depth", [18, 40, 300])
def test_stack_overflow_of_large_frames(inflight: InflightMemory, tmp_path: Path, depth: int) -> None:
    image = tmp_path / "image"
    image.write_bytes(compile_image(LEAPS)[0])
    box = crash(inflight, image, "leaps", 1, "x", str(depth))
    assert box.text.startswith("stack overflow 0x")


FRAMES = r"""
extern "C" __global__ void frame(int *a) {
    volatile int table[1 << 21];
    table[a[threadIdx.x]] = 1;
    a[0] = table[a[1]] + table[(1 << 21) - 1];
}
extern "C" __global__ void lost(int *a) {
    if (threadIdx.x == 2) asm volatile("mov $64, %%rsp; mov %%rax, (%%rsp)" ::: "memory");
    a[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(
    ("kernel", "words", "thread"), [("frame", "stack overflow 0x", 0), ("lost", "invalid address 0x40 ", 2)]
)
def test_region_that_leaves_no_stack_ends_at_once(
    inflight: InflightMemory, tmp_path: Path, kernel: str, words: str, thread: int
) -> None:
    """Its frame is larger than the stack, or it loses the stack: its threads run again on another part."""
    image = tmp_path / "image"
    image.write_bytes(compile_image(FRAMES)[0])
    box = crash(inflight, image, kernel, 4, "x")
    assert box.text.startswith(words)
    assert box.text.endswith(f"kernel '{kernel}', block (0,0,0), thread ({thread},0,0)")


def test_fault_of_a_grid_that_a_kernel_launched_names_it(inflight: InflightMemory, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(compile_image(CHILDREN)[0])
    box = crash(inflight, image, "parent", 8, "x", "21")
    assert box.text.endswith("kernel 'child', block (0,0,0), thread (21,0,0)")


def test_illegal_instruction(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "illegal", 8)
    assert box.text == "illegal instruction in kernel 'illegal', block (0,0,0), thread (2,0,0)"


def test_overrun_of_shared_memory(inflight: InflightMemory, image: Path) -> None:
    box = crash(inflight, image, "shared_overrun", 8)
    assert box.text.endswith("kernel 'shared_overrun', block (0,0,0), thread (1,0,0)")


def test_overrun_of_shared_memory_in_a_grid_that_waits(inflight: InflightMemory, tmp_path: Path) -> None:
    """The shared memory of the other blocks is beside the block's own."""
    image = tmp_path / "image"
    image.write_bytes(compile_image(GRID)[0])
    box = crash(inflight, image, "overrun", 8, "x")
    assert box.text.endswith("kernel 'overrun', block (0,0,0), thread (1,0,0)")
