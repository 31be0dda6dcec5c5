"""Programs over graphs and sparse matrices: memory is accessed in no order."""

from __future__ import annotations

import numpy as np

from bench.programs.program import Argument, Array, Program, Step

_GROUP = 256


def _edges(nodes: int, mean: int, seed: int) -> tuple[Array, Array]:
    """Random edges of a graph: where those of each node start, and the nodes that they lead to."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 2 * mean + 1, nodes)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return starts, random.integers(0, nodes, int(starts[-1])).astype(np.uint32)


def _distances(starts: Array, targets: Array) -> Array:
    """Distances from node 0; -1 where there is no path."""
    nodes = len(starts) - 1
    origins = np.repeat(np.arange(nodes), np.diff(starts))
    distance = np.full(nodes, -1, np.int32)
    distance[0] = 0
    for level in range(nodes):
        reached = targets[distance[origins] == level]
        fresh = reached[distance[reached] == -1]
        if len(fresh) == 0:
            break
        distance[fresh] = level + 1
    return distance


def bfs(nodes: int = 1 << 17) -> Program:
    """Breadth-first search of a random graph with 6 edges per node."""
    starts, targets = _edges(nodes, 6, 3)
    expected = _distances(starts, targets)
    frontier, visited = np.zeros(nodes, np.uint8), np.zeros(nodes, np.uint8)
    frontier[0] = visited[0] = 1
    distance = np.full(nodes, -1, np.int32)
    distance[0] = 0
    arrays = {
        "starts": starts,
        "targets": targets,
        "frontier": frontier,
        "visited": visited,
        "distance": distance,
        "next": np.zeros(nodes, np.uint8),
        "found": np.zeros(1, np.int32),
    }
    count, grid = np.uint32(nodes), (-(-nodes // _GROUP),)
    expand = Step(
        *("bfs_expand", grid, (_GROUP,)),
        (count, "starts", "targets", "frontier", "visited", "next", "distance"),
    )
    advance = Step("bfs_advance", grid, (_GROUP,), (count, "frontier", "visited", "next", "found"))
    steps = (expand, advance) * int(expected.max() + 1)
    native = (count, "starts", "targets", "distance")
    written = ("frontier", "visited", "next")
    return Program("bfs", arrays, steps, native, {"distance": expected}, written=written)


def spmv(rows: int = 1 << 16) -> Program:
    """Sparse matrix times vector, 0 to 32 elements per row."""
    starts, columns = _edges(rows, 16, 4)
    random = np.random.default_rng(5)
    values, x = random.random(len(columns), np.float32), random.random(rows, np.float32)
    sums = np.concatenate([[0.0], np.cumsum(values.astype(np.float64) * x[columns])])
    expected = sums[starts[1:]] - sums[starts[:-1]]
    arrays = {"starts": starts, "columns": columns, "values": values, "x": x, "y": np.zeros(rows, np.float32)}
    arguments: tuple[Argument, ...] = (np.uint32(rows), *arrays)
    step = Step("spmv", (-(-rows // _GROUP),), (_GROUP,), arguments)
    return Program("spmv", arrays, (step,), arguments, {"y": expected})
