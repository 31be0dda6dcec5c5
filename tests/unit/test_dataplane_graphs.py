"""Graphs in the data plane: what makes one, what refuses it, and how its nodes are carried out (by the null engine)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.driver import Pending, Reply
from tests.fakes.graph import node, nodes_request
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from virtio_proto import schema
from virtio_proto.schema import ArrayFlag, ChannelKind, Opcode, Status

GEOMETRY = {"grid": [1, 1, 1], "block": [1, 1, 1]}
PROGRAM = """
kernel done
kernel later behaviour=later
kernel hold behaviour=hold
kernel release behaviour=release
kernel fails behaviour=assert
kernel takes i4
kernel wide workspace=300000
"""
NOP = node(Opcode.NOP)
MAX_NODES = schema.LIMITS["MAX_GRAPH_NODES"]
MAX_BYTES = schema.LIMITS["MAX_GRAPH_BYTES"]


class Vm:
    """A context with the program, and short ways to graphs."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.context = rig.context()
        self.functions = rig.load(self.context, PROGRAM)

    def launch(self, name: str, params: bytes = b"", *, deps: Sequence[int] = (), **changes: Any) -> bytes:
        body = GEOMETRY | {"function": self.functions[name], "param_len": len(params)} | changes
        return node(Opcode.LAUNCH, body, params, deps=deps)

    def try_create(self, nodes: Sequence[bytes], **changes: int) -> Reply:
        body, data = nodes_request(nodes)
        return self.request(Opcode.GRAPH_CREATE, body | changes, data)

    def create(self, *nodes: bytes) -> int:
        return self.rig.ok(Opcode.GRAPH_CREATE, *nodes_request(nodes), context=self.context).value

    def update(self, graph: int, *nodes: bytes) -> Reply:
        return self.request(Opcode.GRAPH_UPDATE, *nodes_request(nodes, graph))

    def submit(self, graph: int, stream: int = 0) -> Pending:
        return self.rig.driver.submit(
            Opcode.GRAPH_LAUNCH, {"graph": graph}, context=self.context, stream=stream, writable_len=1024
        )

    def run(self, graph: int) -> Reply:
        return self.rig.driver.wait(self.submit(graph))

    def request(self, opcode: int, body: Any, data: bytes = b"", context: int | None = None) -> Reply:
        return self.rig.driver.request(opcode, body, data, context=context or self.context, writable_len=1024)

    def ok(self, opcode: int, body: Any, **options: Any) -> Reply:
        return self.rig.ok(opcode, body, context=self.context, **options)

    def release(self, stream: int = 3) -> None:
        self.ok(Opcode.LAUNCH, GEOMETRY | {"function": self.functions["release"]}, stream=stream)


@pytest.fixture
def vm() -> Iterator[Vm]:
    with plane_rig() as rig:
        yield Vm(rig)


def used(vm: Vm) -> int:
    return vm.rig.usage().memory_used_bytes


# ---- making --------------------------------------------------------------------------------------------------------


def test_a_graph_of_every_kind_of_node_runs(vm: Vm) -> None:
    address = vm.rig.alloc(vm.context, 64)
    shape = {"width": 16, "height": 8, "levels": 1, "kind": ChannelKind.FLOAT, "bits": 32, "channels": 1}
    array = vm.ok(Opcode.ARRAY_CREATE, shape | {"flags": ArrayFlag.SURFACE}).value
    graph = vm.create(
        NOP,
        node(Opcode.FILL, {"dst": address, "size": 64, "unit": 4, "value": 1}, deps=[0]),
        node(Opcode.COPY_DEVICE, {"dst": address, "src": address + 32, "size": 32}, deps=[0, 1]),
        vm.launch("takes", bytes(4), deps=[2]),
        node(Opcode.COPY_BOX, {"dst_array": array, "src": address, "width": 64, "height": 1, "depth": 1}, deps=[3, 3]),
    )
    assert graph != 0
    assert [vm.run(graph).status for _ in range(3)] == [Status.OK] * 3


def test_operations_that_no_graph_holds_are_refused(vm: Vm) -> None:
    for opcode in [*set(Opcode) - {0x01, 0x42, 0x43, 0x50, 0x72}, 0x7777, 0xFFFFFFFF]:
        reply = vm.try_create([node(opcode, {})])
        assert reply.status is Status.BAD_REQUEST, opcode
        assert "node 0: opcode" in reply.text


@pytest.mark.parametrize(("index", "dep"), [(0, 0), (0, 1), (1, 1), (2, 3), (2, 0xFFFFFFFF)])
def test_dependencies_that_go_round_or_nowhere_are_refused(vm: Vm, index: int, dep: int) -> None:
    nodes = [NOP] * 4
    nodes[index] = node(Opcode.NOP, deps=[dep])
    reply = vm.try_create(nodes)
    assert reply.status is Status.INVALID_ARGUMENT
    assert f"node {index}: it depends on node {dep}; allowed: nodes before it" in reply.text


def test_nodes_cut_short_are_refused(vm: Vm) -> None:
    whole = NOP + vm.launch("takes", bytes(4), deps=[0])
    for length in range(len(whole)):
        reply = vm.request(Opcode.GRAPH_CREATE, {"num_nodes": 2, "nodes_len": length}, whole[:length])
        assert reply.status is Status.BAD_REQUEST, length
        assert f"the nodes' {length} bytes end inside" in reply.text
    assert used(vm) == 0


def test_bytes_behind_the_last_node_are_refused(vm: Vm) -> None:
    reply = vm.try_create([NOP, NOP + b"\0"])
    assert (reply.status, reply.text) == (Status.BAD_REQUEST, "1 bytes follow the last of 2 nodes")


@pytest.mark.parametrize("changes", [
    {"num_nodes": 0}, {"num_nodes": MAX_NODES + 1}, {"num_nodes": 0xFFFFFFFF}, {"nodes_len": MAX_BYTES + 1},
    {"nodes_len": 0xFFFFFFFF}, {"reserved": 1}, {"graph": 1}, {"nodes_len": 7}, {"nodes_len": 9},
])  # fmt: skip
def test_numbers_out_of_range_are_refused(vm: Vm, changes: dict[str, int]) -> None:
    assert vm.try_create([NOP], **changes).status is Status.BAD_REQUEST


@pytest.mark.parametrize("num_deps", [1 << 30, (1 << 32) - 1, (1 << 30) + 2])
def test_numbers_of_dependencies_do_not_overflow(vm: Vm, num_deps: int) -> None:
    data = schema.GRAPH_NODE.construct.build({"opcode": Opcode.NOP, "num_deps": num_deps}) + bytes(8)
    reply = vm.request(Opcode.GRAPH_CREATE, {"num_nodes": 1, "nodes_len": len(data)}, data)
    assert reply.status in (Status.BAD_REQUEST, Status.INVALID_ARGUMENT)


def test_nodes_are_checked_like_their_requests(vm: Vm) -> None:
    address = vm.rig.alloc(vm.context, 64)
    others = vm.rig.alloc(vm.rig.context(), 64)
    broken = [
        (vm.launch("done", function=77), Status.NOT_FOUND),
        (vm.launch("done", grid=[0, 1, 1]), Status.INVALID_ARGUMENT),
        (vm.launch("done", block=[1025, 1, 1]), Status.INVALID_ARGUMENT),
        (vm.launch("done", shared_bytes=1 << 30), Status.INVALID_ARGUMENT),
        (vm.launch("done", flags=0x80), Status.BAD_REQUEST),
        (vm.launch("takes", bytes(8)), Status.INVALID_ARGUMENT),
        (vm.launch("takes", b""), Status.INVALID_ARGUMENT),
        (node(Opcode.FILL, {"dst": address, "size": 65, "unit": 1}), Status.INVALID_ADDRESS),
        (node(Opcode.FILL, {"dst": others, "size": 64, "unit": 1}), Status.INVALID_ADDRESS),
        (node(Opcode.FILL, {"dst": address, "size": 64, "unit": 3}), Status.INVALID_ARGUMENT),
        (node(Opcode.FILL, {"dst": address, "size": 64, "unit": 1, "reserved": 1}), Status.BAD_REQUEST),
        (node(Opcode.COPY_DEVICE, {"dst": address, "src": address + 1, "size": 64}), Status.INVALID_ADDRESS),
        (node(Opcode.COPY_DEVICE, {"dst": address, "src": 2**64 - 8, "size": 64}), Status.INVALID_ADDRESS),
        (node(Opcode.COPY_BOX, {"dst_array": 5, "width": 4, "height": 1, "depth": 1}), Status.NOT_FOUND),
        (node(Opcode.COPY_BOX, {"width": 4, "height": 1, "depth": 1}), Status.INVALID_ADDRESS),
    ]
    before = used(vm)
    for data, status in broken:
        reply = vm.try_create([NOP, data])
        assert (reply.status, reply.text[:8]) == (status, "node 1: ")
    assert used(vm) == before


def test_functions_of_another_context_are_not_found(vm: Vm) -> None:
    reply = vm.request(Opcode.GRAPH_CREATE, *nodes_request([vm.launch("done")]), context=vm.rig.context())
    assert reply.status is Status.NOT_FOUND


def test_copies_and_fills_of_nothing_are_nodes_that_do_nothing(vm: Vm) -> None:
    graph = vm.create(node(Opcode.COPY_DEVICE, {"dst": 1}), node(Opcode.FILL, {"dst": 8, "unit": 8}))
    assert vm.run(graph).status is Status.OK


def test_nodes_take_memory_of_the_quota_until_the_graph_is_destroyed(vm: Vm) -> None:
    reply = vm.try_create([vm.launch("takes", bytes(4))] * 100)
    assert reply.aux >= 100 * len(vm.launch("takes", bytes(4)))
    assert used(vm) == reply.aux
    vm.ok(Opcode.GRAPH_DESTROY, {"graph": reply.value})
    assert used(vm) == 0


def test_a_graph_beyond_the_quota_is_out_of_memory(vm: Vm) -> None:
    vm.rig.alloc(vm.context, LIMITS.memory_bytes - 8192)
    reply = vm.try_create([NOP] * 1000)
    assert reply.status is Status.OUT_OF_MEMORY
    assert "1000 nodes in 8000 bytes, 8192 of 1048576 bytes free" in reply.text
    assert vm.create(NOP)


def test_a_vm_has_so_many_graphs(vm: Vm) -> None:
    vm.rig.ok(Opcode.GRAPH_DESTROY, {"graph": vm.create(NOP)}, context=vm.context)
    fitting = LIMITS.memory_bytes // 4096
    for _ in range(fitting):
        vm.create(NOP)
    assert vm.try_create([NOP]).status is Status.OUT_OF_MEMORY


# ---- ids -----------------------------------------------------------------------------------------------------------


def test_graphs_belong_to_their_context(vm: Vm) -> None:
    graph = vm.create(NOP)
    other = vm.rig.context()
    for opcode in (Opcode.GRAPH_LAUNCH, Opcode.GRAPH_DESTROY):
        assert vm.request(opcode, {"graph": graph}, context=other).status is Status.NOT_FOUND
        assert vm.request(opcode, {"graph": graph + 1}).status is Status.NOT_FOUND
        assert vm.request(opcode, {"graph": 0}).status is Status.NOT_FOUND
        assert vm.request(opcode, {"graph": graph, "reserved": 1}).status is Status.BAD_REQUEST
    update = nodes_request([NOP], graph)
    assert vm.request(Opcode.GRAPH_UPDATE, *update, context=other).status is Status.NOT_FOUND
    assert vm.run(graph).status is Status.OK


def test_a_destroyed_graph_is_gone_and_its_id_not_used_again_soon(vm: Vm) -> None:
    graph = vm.create(NOP)
    vm.ok(Opcode.GRAPH_DESTROY, {"graph": graph})
    assert vm.run(graph).status is Status.NOT_FOUND
    assert vm.create(NOP) != graph


def test_context_destroy_frees_its_graphs(vm: Vm) -> None:
    vm.create(NOP)
    vm.rig.cold(Opcode.CONTEXT_DESTROY, context=vm.context)
    assert used(vm) == 0


# ---- launches ------------------------------------------------------------------------------------------------------


def test_later_requests_of_the_stream_start_behind_all_nodes(vm: Vm) -> None:
    graph = vm.create(vm.launch("done"), vm.launch("hold", deps=[0]), vm.launch("done", deps=[1]))
    first, second, behind = vm.submit(graph), vm.submit(graph), vm.rig.driver.submit(Opcode.NOP, context=vm.context)
    vm.ok(Opcode.NOP, b"", stream=1)
    assert (first.reply, second.reply, behind.reply) == (None, None, None)
    vm.release()
    assert vm.rig.driver.wait(first).status is Status.OK
    vm.release()
    assert vm.rig.driver.wait(second).status is Status.OK
    assert vm.rig.driver.wait(behind).status is Status.OK


def test_a_graph_runs_in_several_streams_at_once(vm: Vm) -> None:
    graph = vm.create(vm.launch("hold"), vm.launch("later", deps=[0]))
    runs = [vm.submit(graph, stream) for stream in range(3)]
    vm.release()
    assert [vm.rig.driver.wait(run).status for run in runs] == [Status.OK] * 3


def test_no_node_starts_after_one_has_failed(vm: Vm) -> None:
    graph = vm.create(vm.launch("later"), vm.launch("fails"), vm.launch("hold"))
    reply = vm.run(graph)
    assert (reply.status, reply.text) == (Status.ASSERT, "node 1: the null kernel's assertion failed")
    assert vm.run(graph).status is Status.ASSERT


def test_a_launch_reports_the_time_of_all_nodes(vm: Vm) -> None:
    reply = vm.run(vm.create(*[vm.launch("later")] * 3))
    one = vm.run(vm.create(vm.launch("later")))
    assert reply.exec_ns > 0
    assert one.exec_ns > 0


def test_context_destroy_cancels_a_graph(vm: Vm) -> None:
    graph = vm.create(vm.launch("hold"), vm.launch("done"))
    running = vm.submit(graph)
    destroy = vm.rig.driver.submit(Opcode.CONTEXT_DESTROY, context=vm.context)
    assert vm.rig.driver.wait(running).status is Status.CANCELLED
    vm.rig.serve_cold()
    assert vm.rig.driver.wait(destroy).status is Status.OK
    assert used(vm) == 0


def test_a_destroyed_graph_still_runs_where_it_was_launched(vm: Vm) -> None:
    graph = vm.create(vm.launch("hold"), vm.launch("takes", bytes(4)))
    running = vm.submit(graph)
    vm.ok(Opcode.GRAPH_DESTROY, {"graph": graph}, stream=1)
    assert used(vm) > 0
    vm.release()
    assert vm.rig.driver.wait(running).status is Status.OK
    assert used(vm) == 0


def test_launches_share_one_workspace_for_all_nodes(vm: Vm) -> None:
    graph = vm.create(vm.launch("wide"), vm.launch("hold"), vm.launch("wide"))
    nodes = used(vm)
    runs = [vm.submit(graph), vm.submit(graph)]
    vm.ok(Opcode.NOP, b"", stream=1)
    assert used(vm) - nodes == 512 << 10
    for run in runs:
        vm.release()
        assert vm.rig.driver.wait(run).status is Status.OK


def test_a_launch_without_memory_for_its_workspace_is_refused(vm: Vm) -> None:
    graph = vm.create(vm.launch("wide"))
    vm.rig.alloc(vm.context, LIMITS.memory_bytes - used(vm))
    assert vm.run(graph).status is Status.OUT_OF_MEMORY


# ---- what nodes name may go ----------------------------------------------------------------------------------------


def test_a_graph_whose_memory_is_freed_is_refused_until_it_is_updated(vm: Vm) -> None:
    address = vm.rig.alloc(vm.context, 64)
    graph = vm.create(vm.launch("fails"), node(Opcode.FILL, {"dst": address, "size": 64, "unit": 1}))
    vm.ok(Opcode.FREE, {"address": address})
    reply = vm.run(graph)
    assert (reply.status, reply.text[:8]) == (Status.INVALID_ADDRESS, "node 1: ")  # and node 0 did not run
    assert vm.update(graph, NOP).status is Status.OK
    assert vm.run(graph).status is Status.OK


def test_a_graph_whose_program_is_unloaded_is_refused(vm: Vm) -> None:
    graph = vm.create(NOP, vm.launch("done"))
    vm.rig.cold(Opcode.PROGRAM_UNLOAD, {"program": vm.rig.programs[0]}, context=vm.context)
    reply = vm.run(graph)
    assert (reply.status, reply.text[:8]) == (Status.NOT_FOUND, "node 1: ")


def test_a_program_is_unloaded_when_launches_of_its_graphs_have_ended(vm: Vm) -> None:
    running = vm.submit(vm.create(vm.launch("hold"), vm.launch("done")))
    release = vm.rig.load(vm.context, "kernel release2 behaviour=release")["release2"]
    unload = vm.rig.driver.submit(Opcode.PROGRAM_UNLOAD, {"program": vm.rig.programs[0]}, context=vm.context, stream=1)
    vm.ok(Opcode.NOP, b"", stream=2)
    assert unload.reply is None
    vm.ok(Opcode.LAUNCH, GEOMETRY | {"function": release}, stream=2)
    assert vm.rig.driver.wait(running).status is Status.OK
    vm.rig.serve_cold()
    assert vm.rig.driver.wait(unload).status is Status.OK


def test_a_graph_whose_array_is_destroyed_is_refused(vm: Vm) -> None:
    shape = {"width": 16, "levels": 1, "kind": ChannelKind.FLOAT, "bits": 32, "channels": 1}
    array = vm.ok(Opcode.ARRAY_CREATE, shape).value
    address = vm.rig.alloc(vm.context, 64)
    box = {"dst": address, "src_array": array, "width": 64, "height": 1, "depth": 1}
    graph = vm.create(node(Opcode.COPY_BOX, box))
    vm.ok(Opcode.ARRAY_DESTROY, {"array": array})
    assert vm.run(graph).status is Status.NOT_FOUND


def test_a_graph_lasts_when_other_things_go(vm: Vm) -> None:
    address, other = vm.rig.alloc(vm.context, 64), vm.rig.alloc(vm.context, 64)
    graph = vm.create(node(Opcode.FILL, {"dst": address, "size": 64, "unit": 1}), vm.launch("takes", bytes(4)))
    vm.ok(Opcode.FREE, {"address": other})
    assert vm.run(graph).status is Status.OK


# ---- updates -------------------------------------------------------------------------------------------------------


def test_launches_before_an_update_run_with_the_old_nodes(vm: Vm) -> None:
    graph = vm.create(vm.launch("hold"), vm.launch("fails"))
    before = [vm.submit(graph), vm.submit(graph)]
    assert vm.update(graph, vm.launch("done")).status is Status.OK
    after = vm.submit(graph, stream=1)
    assert vm.rig.driver.wait(after).status is Status.OK
    for run in before:
        vm.release()
        assert vm.rig.driver.wait(run).status is Status.ASSERT


def test_an_update_that_fails_changes_nothing(vm: Vm) -> None:
    graph = vm.create(vm.launch("fails"))
    before = used(vm)
    assert vm.update(graph, NOP, vm.launch("done", grid=[0, 0, 0])).status is Status.INVALID_ARGUMENT
    assert used(vm) == before
    assert vm.run(graph).status is Status.ASSERT


def test_an_update_gives_back_the_memory_of_the_old_nodes(vm: Vm) -> None:
    graph = vm.create(*[NOP] * 1000)
    assert used(vm) > vm.update(graph, NOP).aux == used(vm)


# ---- anything ------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), st.binary(max_size=200))
def test_any_bytes_are_answered_and_leave_nothing(vm: Vm, num_nodes: int, data: bytes) -> None:
    reply = vm.request(Opcode.GRAPH_CREATE, {"num_nodes": num_nodes, "nodes_len": len(data)}, data)
    if reply.status is Status.OK:
        vm.ok(Opcode.GRAPH_DESTROY, {"graph": reply.value})
    assert used(vm) == 0


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_graph_with_flipped_bytes_is_answered_and_leaves_nothing(vm: Vm, data: st.DataObject) -> None:
    raw = bytearray(b"".join([NOP, vm.launch("takes", struct.pack("<I", 7), deps=[0]), vm.launch("done", deps=[0, 1])]))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    reply = vm.request(Opcode.GRAPH_CREATE, {"num_nodes": 3, "nodes_len": len(raw)}, bytes(raw))
    if reply.status is Status.OK:
        assert vm.run(reply.value).status is Status.OK
        vm.ok(Opcode.GRAPH_DESTROY, {"graph": reply.value})
    assert used(vm) == 0


def test_graphs_are_counted_as_a_whole_among_functions(vm: Vm) -> None:
    graph = vm.create(vm.launch("done"), vm.launch("done"))
    for _ in range(3):
        vm.run(graph)
    (tally,) = vm.rig.plane.functions()
    assert (tally.name, tally.launches, sum(tally.times)) == ("(graphs)", 3, 3)
    assert tally.busy_ns == vm.rig.usage().busy_ns
