"""Neighbouring blocks run as one, if their kernel cannot notice it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.control_rig import control_rig
from tests.unit.cpu_code import llvm_code
from tests.unit.cpu_rig import Rig, rig
from vhost_backend._dataplane import lib
from virtio_proto.control.records import Function

PARAMETERS = "(int n, int *__restrict__ out)"
INDEX = "int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (x >= n || y >= n) return;"

OWN = "__device__ __noinline__ int own(int n) { return n == 0 ? threadIdx.x : own(n - 1) ^ own(n - 1) ^ own(n - 1); }"

STRIPS = {
    "plain": f"{INDEX} {GUARD} out[y * n + x] = x * 1000 + y;",
    "wide": (
        "unsigned long long x = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;"
        f"int y = blockIdx.y * blockDim.y + threadIdx.y; {GUARD} out[y * n + x] = x * 1000 + y;"
    ),
    "terms": (
        "int x = n + blockIdx.x * blockDim.x + threadIdx.x - n, y = blockIdx.y * blockDim.y + threadIdx.y;"
        f"{GUARD} out[y * n + x] = x * 1000 + y;"
    ),
    "sums": f"{INDEX} {GUARD} int sum = 0; for (int k = 0; k < 1000; k++) sum += x + (k == y); out[y * n + x] = sum;",
    "stride": (
        f"{INDEX} if (y >= n) return; for (int i = x; i < n; i += gridDim.x * blockDim.x) out[y * n + i] = i * 1000 + y;"
    ),
    "adds": f"{INDEX} {GUARD} atomicAdd(&out[y * n + x], x * 1000 + y + 1);",
}
BLOCKS = {
    "thread": f"{INDEX} {GUARD} out[y * n + x] = (x * 1000 + y) * (threadIdx.x < 1000);",
    "block": f"{INDEX} {GUARD} out[y * n + x] = blockIdx.x * blockDim.x * 1000 + y + (x % (int)blockDim.x) * 1000;",
    "lane": (
        f'{INDEX} {GUARD} int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane));'
        "out[y * n + x] = x * 1000 + y + (lane > 31);"
    ),
    "joined": (
        f"{INDEX} {GUARD} int part = threadIdx.x; if (n > 100000) out[0] = 1, part = 0;"
        "out[y * n + x] = (int)(blockIdx.x * blockDim.x) * 1000 + part * 1000 + y;"
    ),
    "shared": (
        f"__shared__ int s[64]; {INDEX} int cell = threadIdx.x + 8 * threadIdx.y; s[cell] = x; {GUARD}"
        "out[y * n + x] = s[cell] * 1000 + y;"
    ),
    "looks": f"{INDEX} {GUARD} ((volatile int *)out)[y * n + x] = x * 1000 + y;",
    "result": f"{INDEX} {GUARD} out[y * n + x] = atomicExch(&out[y * n + x], 0) + x * 1000 + y + 1;",
    "function": f"{INDEX} {GUARD} out[y * n + x] = (x * 1000 + y) * (own(n % 7) < blockDim.x);",
    "prints": f'{INDEX} {GUARD} if (x > 100000) printf("%d", x); out[y * n + x] = x * 1000 + y;',
}


def kernel(name: str) -> str:
    body = (STRIPS | BLOCKS)[name]
    return f'{OWN if "own(" in body else ""} extern "C" __global__ void {name}{PARAMETERS} {{ {body} }}\n'


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load("".join(kernel(name) for name in (*STRIPS, *BLOCKS)))
        yield made


@pytest.mark.parametrize("n", [1, 29, 64, 200])
@pytest.mark.parametrize("block", [(4, 4), (3, 2), (8, 8), (1, 1), (64, 1)])
@pytest.mark.parametrize("name", [*STRIPS, *BLOCKS])
def test_every_thread_of_a_grid_runs_once(gpu: Rig, name: str, block: tuple[int, int], n: int) -> None:
    out = gpu.array((n, n), np.int32, -1)
    gpu.launch(name, (-(-n // block[0]), -(-n // block[1])), block, np.int32(n), out)
    y, x = np.mgrid[:n, :n]
    expected = 1000 * x + (y < 1000) if name == "sums" else 1000 * x + y
    assert np.array_equal(out, expected)


def runs_in_strips(name: str) -> bool:
    """True if the kernel's code takes rows of several blocks."""
    return "%row.threads" in llvm_code(kernel(name), before=True)


@pytest.mark.parametrize("name", [*STRIPS, *BLOCKS])
def test_only_kernels_that_cannot_notice_run_in_strips(name: str) -> None:
    assert runs_in_strips(name) == (name in STRIPS)


def test_blocks_that_the_control_system_watches_run_one_by_one() -> None:
    n, blocks = 16, 4
    y, x = np.mgrid[:n, :n]
    with control_rig(pes=1) as made:
        made.load(kernel("plain"))
        made.area.open(1, Function.PERF)
        made.area.bind(0, Function.PERF, 1)
        for attention in (0, lib.VGC_CTL_ATTEND_BLOCKS, 0):
            made.area.attend(0, attention)
            out = made.rig.array((n, n), np.int32, -1)
            made.rig.launch("plain", (blocks, blocks), (4, 4), np.int32(n), out)
            assert np.array_equal(out, 1000 * x + y)
            watched = [record.block for record in made.area.take(1) if record.kind == "block_end"]
            assert watched == (list(range(blocks**2)) if attention else [])
