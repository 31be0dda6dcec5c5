"""A thread's accesses to members of structures keep their order in vectorised loops over threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_code import kernel_code, llvm_code
from tests.unit.cpu_rig import Rig, rig

SOURCE = r"""
#define KERNEL extern "C" __global__ void
struct Point { int a, b, c, d; };
KERNEL read_behind_store(int n, int who, int *__restrict__ p, int *__restrict__ cleared) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= n) return;
    int c = p[x * 4 + 2];
    p[x * 4] = 3;
    if (x == who && p[x * 4 + 3] > 58) {
        p[x * 4 + 3] = 0;
        *cleared = x;
    }
    p[x * 4 + 3] += c;
}
KERNEL store_behind_store(Point *p, const int *in, int limit) { /* in front of those to the others */
    int x = threadIdx.x;
    p[x].d = 1000;
    if (x > limit) p[x].d = in[x];
    p[x].a = x;
    p[x].b = 2 * x;
    p[x].c = 3 * x;
}
KERNEL in_place(const Point *from, Point *to) { /* from == to */
    int x = threadIdx.x;
    to[x].a = from[x].a + 1;
    to[x].b = from[x].b + from[x].a;
    to[x].c = from[x].c + from[x].b;
    to[x].d = from[x].d + from[x].c;
}
KERNEL loads_first(const Point *from, Point *to) {
    int x = threadIdx.x;
    Point p = from[x];
    to[x] = Point{p.b, p.a, p.d, p.c};
}
"""
THREADS = 77


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load(SOURCE)
        yield made


def test_load_stays_behind_the_store_of_its_thread(gpu: Rig) -> None:
    values, cleared = np.arange(THREADS * 4, dtype=np.int32).reshape(THREADS, 4), gpu.array(1, np.int32)
    points = gpu.array((THREADS, 4), np.int32, values)
    gpu.launch("read_behind_store", 3, 32, np.int32(THREADS), np.int32(33), points, cleared)
    expected = [c if x == 33 else c + d for x, (_, _, c, d) in enumerate(values.tolist())]
    assert points[:, 3].tolist() == expected
    assert cleared.tolist() == [33]


def test_stores_to_the_same_member_keep_their_order(gpu: Rig) -> None:
    points, numbers = gpu.array((THREADS, 4), np.int32), gpu.array(THREADS, np.int32, np.arange(THREADS))
    gpu.launch("store_behind_store", 1, THREADS, points, numbers, np.int32(30))
    assert points[:, 3].tolist() == [*[1000] * 31, *range(31, THREADS)]
    assert points[:, :3].tolist() == [[x, 2 * x, 3 * x] for x in range(THREADS)]


def test_structures_are_changed_in_place_member_by_member(gpu: Rig) -> None:
    values = np.random.default_rng(6).integers(0, 100, (THREADS, 4)).astype(np.int32)
    points = gpu.array((THREADS, 4), np.int32, values)
    gpu.launch("in_place", 1, THREADS, points, points)
    expected = values.cumsum(axis=1) + 1
    assert points.tolist() == expected.tolist()


def test_loads_before_all_stores_are_wide() -> None:
    code = kernel_code(llvm_code(SOURCE), "loads_first")
    assert "freeze" not in code.split("thread:")[-1]
    assert "@llvm.masked.gather" not in code
