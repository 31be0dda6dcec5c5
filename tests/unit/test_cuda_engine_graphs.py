"""Graphs on the CUDA engine: batches of nodes, what must be alone, failures and cancelling, on the fake driver."""

from __future__ import annotations

import struct
from typing import Any

from tests.unit.cuda_direct import Direct, gpu, hello, printing, text, words
from vhost_backend._dataplane import ffi, lib
from virtio_proto.schema import Status

__all__ = ["gpu", "words"]

SHORT_NS = 200_000
BATCH = 32
NOP: dict[str, Any] = {"kind": lib.VGC_OPK_MARKER}


def launch(gpu: Direct, name: str, params: bytes = b"", **fields: Any) -> dict[str, Any]:
    """A node that launches a kernel."""
    block = ffi.new("uint8_t[]", params or b"\0")
    kernel = gpu.functions[1, name].kernel
    geometry = {"grid": [1, 1, 1], "block": [1, 1, 1]} | fields
    return {"kind": lib.VGC_OPK_LAUNCH, "kernel": kernel, "params": block, "param_len": len(params)} | geometry


def add_one(gpu: Direct, address: int) -> dict[str, Any]:
    return launch(gpu, "add_one", struct.pack("<QI", address, 1))


def run(gpu: Direct, *nodes: dict[str, Any], stream: int = 0) -> Any:
    """Submits a graph, as the data plane does."""
    array = ffi.new("struct vgc_node[]", [*nodes])
    op = ffi.new("struct vgc_op *", {"nodes": array, "num_nodes": len(nodes)})
    kernels = [node["kernel"] for node in nodes if "kernel" in node]
    op.kernel = kernels[0] if kernels else ffi.NULL
    lib.vgc_op_load_node(op, 0)
    return gpu.submit(op, array, nodes, stream=stream)


def number(gpu: Direct, address: int) -> int:
    return int(struct.unpack("<I", gpu.read(address, 4))[0])


def make_short(gpu: Direct, name: str = "empty") -> None:
    """Launches a kernel until it is known to be short."""
    took_ns = SHORT_NS
    while took_ns >= SHORT_NS:
        op = gpu.launch(name)
        gpu.wait(op)
        took_ns = op.end_ns - op.start_ns


# ---- batches -------------------------------------------------------------------------------------


def test_kernels_of_a_graph_not_known_to_be_short_have_a_marker_each(words: Direct) -> None:
    before = words.driver.count("cuStreamWriteValue32_v2")
    words.wait(run(words, *[launch(words, "empty")] * 2, launch(words, "add_one", bytes(12))))
    assert words.driver.count("cuStreamWriteValue32_v2") - before >= 2


def test_short_kernels_of_a_graph_share_markers(words: Direct) -> None:
    """All nodes of a batch are submitted without a look at what has ended."""
    make_short(words)
    words.driver.hold()
    before = words.driver.count("cuLaunchKernel"), words.driver.count("cuStreamWriteValue32_v2")
    graph = run(words, *[launch(words, "empty")] * (BATCH + 8))
    words.poll()
    after = words.driver.count("cuLaunchKernel"), words.driver.count("cuStreamWriteValue32_v2")
    assert (after[0] - before[0], after[1] - before[1]) == (BATCH, 1)
    words.driver.go_on()
    words.wait(graph)
    assert words.driver.count("cuLaunchKernel") - before[0] == BATCH + 8


def test_graphs_and_launches_of_a_lane_follow_each_other(gpu: Direct) -> None:
    """The second graph is submitted while the first one runs."""
    address = gpu.alloc(4)
    zero = {"kind": lib.VGC_OPK_FILL, "dst": address, "size": 4, "value": 0, "unit": 4}
    first, launched = run(gpu, zero, *[add_one(gpu, address)] * 50), gpu.add_one(address, 1)
    second = run(gpu, *[add_one(gpu, address)] * 50)
    gpu.wait(first, launched, second)
    assert number(gpu, address) == 101
    assert first.graph_start_ns <= first.end_ns <= launched.end_ns <= second.end_ns


def test_a_graph_has_the_times_of_all_its_nodes(gpu: Direct) -> None:
    graph = run(gpu, NOP, launch(gpu, "hang"), launch(gpu, "empty"))
    gpu.driver.await_hanging()
    gpu.driver.release()
    gpu.wait(graph)
    assert 0 < graph.graph_start_ns < graph.end_ns


def test_the_time_of_a_deadline_begins_with_the_running_batch(gpu: Direct) -> None:
    """Not with the graph, and not while it waits in its lane."""
    hang, graph = gpu.launch("hang"), run(gpu, launch(gpu, "empty"), launch(gpu, "empty"))
    gpu.driver.await_hanging()
    gpu.poll()
    assert graph.start_ns == 0
    gpu.driver.release()
    gpu.wait(hang, graph)


# ---- what must be alone --------------------------------------------------------------------------


def test_a_graph_prints_in_its_order() -> None:
    with printing() as gpu:
        one, two = struct.pack("<I", 1), struct.pack("<I", 2)
        graph = run(gpu, launch(gpu, "prints", one), launch(gpu, "empty"), launch(gpu, "prints", two))
        gpu.wait(graph)
        assert graph.output_bytes == len(hello(1) + hello(2))
        assert gpu.take_output()[0] == hello(1) + hello(2)


# ---- ends ----------------------------------------------------------------------------------------


def test_a_graph_ends_with_a_node_that_the_driver_refuses(gpu: Direct) -> None:
    address = gpu.alloc(4)
    gpu.wait(gpu.fill(address, 4, 0))
    make_short(gpu)
    refused = launch(gpu, "empty", block=[1, 1, 128])
    graph = run(gpu, add_one(gpu, address), launch(gpu, "empty"), refused, add_one(gpu, address))
    gpu.wait(graph, status=Status.LAUNCH_FAILED)
    assert graph.node == 2
    assert text(graph).startswith("kernel empty: CUDA_ERROR_INVALID_VALUE (")
    assert number(gpu, address) == 1


def test_a_cancelled_graph_ends_with_its_batch(gpu: Direct) -> None:
    address = gpu.alloc(4)
    gpu.wait(gpu.fill(address, 4, 0))
    graph, behind = run(gpu, launch(gpu, "hang"), add_one(gpu, address)), run(gpu, add_one(gpu, address))
    gpu.driver.await_hanging()
    gpu.poll()
    gpu.handle.ops.cancel(gpu.handle, 1)
    gpu.driver.release()
    gpu.wait(graph, behind, status=Status.CANCELLED)
    assert number(gpu, address) == 0


def test_nodes_that_do_nothing_end_behind_the_lane(gpu: Direct) -> None:
    hang, graph = gpu.launch("hang"), run(gpu, NOP, NOP)
    gpu.driver.await_hanging()
    gpu.poll()
    assert not gpu.is_done(graph)
    gpu.driver.release()
    gpu.wait(hang, graph)
