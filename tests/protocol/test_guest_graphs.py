"""libvgc's graphs (vgc_graph_* in vgc.h) on the real daemon, worker and CPU engine."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import guest_driver as vgc
from guest_driver._lib import check, ffi, lib
from tests.fakes.guest import open_device
from tests.protocol.guest_host import GuestHost, guest_host
from virtio_proto import schema

SOURCE = r"""
#include <assert.h>
#include <stdio.h>
extern "C" __global__ void scale(unsigned *data, unsigned factor) { data[threadIdx.x] *= factor; }
extern "C" __global__ void fails(void) { assert(false); }
extern "C" __global__ void prints(void) { printf("from a graph\n"); }
"""
COUNT = 100


class Graphs:
    """A device and a program of libvgc, as a program in C has them."""

    def __init__(self, dev: vgc.Device) -> None:
        self.device = dev._handle.pointer
        program = ffi.new("struct vgc_program **")
        text = SOURCE.encode()
        check(lib.vgc_program_load(self.device, lib.VGC_SOURCE_CUDA, text, len(text), ffi.NULL, 0, program))
        self.program = program[0]
        self._kept: list[Any] = []

    def keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def alloc(self, size: int) -> int:
        address = ffi.new("uint64_t *")
        check(lib.vgc_alloc(self.device, size, address))
        return int(address[0])

    def read(self, address: int) -> list[int]:
        data = ffi.new("uint32_t[]", COUNT)
        check(lib.vgc_copy_out(self.device, data, address, 4 * COUNT, 0, ffi.NULL))
        return list(data)

    def launch(self, name: str, params: bytes = b"", deps: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        function = ffi.new("struct vgc_function **")
        check(lib.vgc_program_function(self.program, name.encode(), function))
        geometry = {"grid": [1, 1, 1], "block": [COUNT, 1, 1]} | fields
        return {
            "kind": lib.VGC_NODE_LAUNCH,
            "function": function[0],
            "params": self.keep(ffi.new("char[]", params or b"\0")),
            "param_bytes": len(params),
            "geometry": geometry,
            "deps": self.keep(ffi.new("uint32_t[]", [*deps] or 1)),
            "num_deps": len(deps),
        }

    def scale(self, address: int, factor: int, deps: Sequence[int] = ()) -> dict[str, Any]:
        return self.launch("scale", struct.pack("<QI", address, factor), deps)

    def create(self, *nodes: dict[str, Any]) -> Any:
        graph = ffi.new("struct vgc_graph **")
        check(lib.vgc_graph_create(self.device, ffi.new("struct vgc_node[]", [*nodes]), len(nodes), graph))
        return graph[0]

    def update(self, graph: Any, *nodes: dict[str, Any]) -> None:
        check(lib.vgc_graph_update(graph, ffi.new("struct vgc_node[]", [*nodes]), len(nodes)))

    def run(self, graph: Any) -> None:
        check(lib.vgc_graph_launch(graph, 0, ffi.NULL))

    def run_on_and_on(self, graph: Any) -> None:
        while True:
            self.run(graph)

    def used(self) -> int:
        usage = ffi.new("struct vgc_device_usage *")
        check(lib.vgc_device_usage(self.device, usage))
        return int(usage.memory_used_bytes)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GuestHost]:
    with guest_host(tmp_path) as host:
        yield host


@pytest.fixture
def graphs(host: GuestHost, tmp_path: Path) -> Iterator[Graphs]:
    with open_device(host.link, tmp_path / "state") as dev:
        yield Graphs(dev)


def fill(address: int, value: int) -> dict[str, Any]:
    return {"kind": lib.VGC_NODE_FILL, "dst": address, "size": 4 * COUNT, "value": value, "unit": 4}


def copy(dst: int, src: int) -> dict[str, Any]:
    return {"kind": lib.VGC_NODE_COPY, "dst": dst, "src": src, "size": 4 * COUNT}


def test_one_request_runs_all_nodes_in_their_order(graphs: Graphs) -> None:
    a, b = graphs.alloc(4 * COUNT), graphs.alloc(4 * COUNT)
    empty = {"kind": lib.VGC_NODE_EMPTY}
    graph = graphs.create(fill(a, 3), graphs.scale(a, 5, [0]), empty, copy(b, a), graphs.scale(b, 2, [3, 2]))
    for _ in range(2):
        graphs.run(graph)
        assert (graphs.read(a), graphs.read(b)) == ([15] * COUNT, [30] * COUNT)
    check(lib.vgc_graph_destroy(graph))


def test_jobs_of_a_graph_end_in_their_order(graphs: Graphs) -> None:
    address = graphs.alloc(4 * COUNT)
    check(lib.vgc_fill(graphs.device, address, 1, 4, 4 * COUNT, 0, ffi.NULL))
    graph = graphs.create(*[graphs.scale(address, 2)] * 3)
    jobs = ffi.new("struct vgc_job *[4]")
    for index in range(4):
        check(lib.vgc_graph_launch(graph, 0, jobs + index))
    for job in jobs:
        check(lib.vgc_job_wait(job, (1 << 64) - 1))
        timing = ffi.new("struct vgc_timing *")
        check(lib.vgc_job_timing(job, timing))
        assert 0 < timing.exec_ns < timing.total_ns
        lib.vgc_job_release(job)
    assert graphs.read(address) == [1 << 12] * COUNT
    check(lib.vgc_graph_destroy(graph))


def test_an_update_replaces_all_nodes_and_counts_their_memory(graphs: Graphs) -> None:
    address = graphs.alloc(4 * COUNT)
    before = graphs.used()
    graph = graphs.create(*[fill(address, 1)] * 1000)
    large = graphs.used()
    graphs.update(graph, fill(address, 7))
    assert before < graphs.used() < large
    graphs.run(graph)
    assert graphs.read(address) == [7] * COUNT
    check(lib.vgc_graph_destroy(graph))
    assert graphs.used() == before


def test_a_failing_node_is_named_and_ends_the_graph(graphs: Graphs) -> None:
    address = graphs.alloc(4 * COUNT)
    graph = graphs.create(fill(address, 1), graphs.launch("fails"), fill(address, 2))
    with pytest.raises(vgc.KernelAssert, match="node 1: "):
        graphs.run(graph)
    assert graphs.read(address) == [1] * COUNT
    check(lib.vgc_graph_destroy(graph))


def test_a_graph_that_prints_has_output_to_ask_for(graphs: Graphs) -> None:
    graph = graphs.create(graphs.launch("prints", block=[1, 1, 1]))
    assert not lib.vgc_output_waits(graphs.device)
    graphs.run(graph)
    assert lib.vgc_output_waits(graphs.device)
    check(lib.vgc_graph_destroy(graph))


def test_nodes_that_cannot_be_are_refused_before_they_are_sent(graphs: Graphs) -> None:
    address = graphs.alloc(4 * COUNT)
    done = graphs.used()
    for nodes, said in (
        ([], "a graph of 0 nodes"),
        ([graphs.scale(address, 1, [0])], "node 0: it depends on node 0; allowed: nodes before it"),
        ([{"kind": 9}], "node 0: kind 9"),
        ([graphs.launch("scale", b"1234")], "node 0: scale takes 12 bytes of parameters, not 4"),
        ([graphs.launch("fails", grid=[0, 1, 1])], "every extent is at least 1"),
        ([{"kind": lib.VGC_NODE_LAUNCH}], "node 0: a function"),
        ([{"kind": lib.VGC_NODE_EMPTY}] * (schema.LIMITS["MAX_GRAPH_NODES"] + 1), "a graph of 16385 nodes"),
    ):
        with pytest.raises(vgc.VgcError, match=said):
            graphs.create(*nodes)
    assert graphs.used() == done


def test_a_graph_beyond_the_quota_is_refused_before_it_is_sent(graphs: Graphs) -> None:
    usage = ffi.new("struct vgc_device_usage *")
    check(lib.vgc_device_usage(graphs.device, usage))
    address = graphs.alloc(usage.memory_quota_bytes - usage.memory_used_bytes - 8192)
    check(lib.vgc_device_usage(graphs.device, usage))
    done = usage.requests_done
    with pytest.raises(vgc.ResourcesExhausted, match="a graph of 40000 bytes, 8192 of"):
        graphs.create(*[fill(address, 1)] * 1000)
    check(lib.vgc_device_usage(graphs.device, usage))
    assert usage.requests_done == done + 1


def test_a_graph_of_a_lost_worker_is_refused(host: GuestHost, graphs: Graphs) -> None:
    graph = graphs.create({"kind": lib.VGC_NODE_EMPTY})
    host.kill_worker()
    with pytest.raises(vgc.DeviceLost):
        graphs.run_on_and_on(graph)
    check(lib.vgc_reset(graphs.device))
    with pytest.raises(vgc.DeviceLost, match="the graph"):
        graphs.run(graph)
    check(lib.vgc_graph_destroy(graph))
