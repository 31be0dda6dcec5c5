"""Contract of all engines, tested through the data plane. Subclass `EngineContract` in a test module of the engine.

The program that `image` returns must have these kernels, which an engine that stores no data need not obey::

    __global__ void add_one(unsigned *data, unsigned count);   data[i] += 1 for i < count; grid-stride
    __global__ void slow(unsigned *data, unsigned rounds);     takes long in many blocks; adds `rounds` to data[0]
    __global__ void fails(void);                               ends with status ASSERT, or ends the worker with it
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import pytest

from tests.fakes.graph import node, nodes_request
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend.engines.base import Engine
from vhost_backend.sandbox import memfd
from virtio_proto import schema
from virtio_proto.schema import ArgKind, Opcode, Status

MIB = 1 << 20
GEOMETRY = {"grid": [4, 1, 1], "block": [64, 1, 1]}


def _stepped(rounds: int) -> bytes:
    """Memory after the nodes of `_steps`, each done on the host, and a launch over all of it."""
    data = [5] * 100
    for index in range(rounds):
        data[:50] = [value + 1 for value in data[:50]]
        data = [data[0], *data[:99]] if index % 7 == 3 else data[:50] * 2
    return struct.pack("<100I", *[value + 1 for value in data])


def refused_memory(rig: Rig, context: int, address: int) -> bool:
    """True if the context may not use the memory."""
    reply = rig.driver.request(Opcode.COPY_OUT, {"src": address, "size": 1}, context=context, writable_len=1)
    return reply.status is Status.INVALID_ADDRESS


class EngineContract(ABC):
    """The tests. Each engine defines `open_engine` and `image`."""

    stores_data: ClassVar[bool] = True
    slow_rounds: ClassVar[int] = 1
    assert_ends_worker: ClassVar[bool] = False
    """True if a failed assertion ends the worker, which would end this suite; the engine's own tests cover it then."""

    @abstractmethod
    def open_engine(self) -> Engine:
        """A fresh engine with two processing elements and at least 16 MiB; the suite starts and closes it."""

    @abstractmethod
    def image(self) -> bytes:
        """The program described above."""

    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        engine = self.open_engine()
        engine.start()
        with plane_rig(replace(LIMITS, memory_bytes=16 * MIB), engine=engine) as made:
            yield made

    @pytest.fixture
    def context(self, rig: Rig) -> int:
        return rig.context()

    @pytest.fixture
    def functions(self, rig: Rig, context: int) -> dict[str, int]:
        return rig.load(context, self.image())

    def same(self, found: bytes, expected: bytes) -> bool:
        """True if the bytes are equal, or the engine stores no data."""
        return len(found) == len(expected) and (found == expected or not self.stores_data)

    # ---- programs --------------------------------------------------------------------------------

    def test_no_more_is_charged_before_loading_than_after(self, rig: Rig) -> None:
        image = self.image()
        fd = memfd.sealed("image", image)
        try:
            least = rig.engine.image_bytes(fd, len(image))
            program = rig.engine.load_program(fd, len(image), 1)
        finally:
            os.close(fd)
        assert 0 <= least <= program.charged_bytes
        rig.engine.unload_program(program)

    # ---- memory ----------------------------------------------------------------------------------

    def test_addresses_are_apart_and_aligned(self, rig: Rig, context: int) -> None:
        sizes = [1, 4096, 100, MIB]
        ranges = sorted((rig.alloc(context, size), size) for size in sizes)
        assert all(address % 256 == 0 and address != 0 for address, _ in ranges)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(ranges))

    def test_freed_memory_can_be_had_again(self, rig: Rig, context: int) -> None:
        for _ in range(8):
            address = rig.alloc(context, 12 * MIB)
            rig.ok(Opcode.FREE, {"address": address}, context=context)
        assert rig.usage().memory_used_bytes == 0

    def test_the_quota_holds(self, rig: Rig, context: int) -> None:
        rig.alloc(context, 12 * MIB)
        body = {"size": 5 * MIB}
        assert rig.driver.request(Opcode.ALLOC, body, context=context).status is Status.OUT_OF_MEMORY

    def test_what_is_copied_in_comes_out(self, rig: Rig, context: int) -> None:
        data = bytes(range(256)) * 400
        address = rig.alloc(context, len(data))
        rig.ok(Opcode.COPY_IN, {"dst": address, "size": len(data)}, payload_in=data, context=context)
        reply = rig.ok(Opcode.COPY_OUT, {"src": address, "size": len(data)}, writable_len=len(data), context=context)
        assert self.same(reply.payload, data)

    def test_copies_of_odd_pieces_of_an_allocation(self, rig: Rig, context: int) -> None:
        address = rig.alloc(context, 1000)
        rig.ok(Opcode.FILL, {"dst": address, "size": 1000, "unit": 1, "value": 7}, context=context)
        rig.ok(Opcode.COPY_IN, {"dst": address + 3, "size": 5}, payload_in=b"hello", context=context)
        reply = rig.ok(Opcode.COPY_OUT, {"src": address + 1, "size": 9}, writable_len=9, context=context)
        assert self.same(reply.payload, b"\7\7hello\7\7")

    def test_framing_of_a_payload_does_not_matter(self, rig: Rig, context: int) -> None:
        data = bytes(range(100))
        address = rig.alloc(context, 100)
        body = {"dst": address, "size": 100}
        rig.ok(Opcode.COPY_IN, body, data, context=context, cuts=(10, 40, 49, 50, 90, 147))
        reply = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 100}, writable_len=100, context=context)
        assert self.same(reply.payload, data)

    @pytest.mark.parametrize("shift", [1, 64, 300])
    @pytest.mark.parametrize("forward", [True, False])
    def test_overlapping_copies_move(self, rig: Rig, context: int, shift: int, forward: bool) -> None:
        data = bytes(i % 251 for i in range(1000))
        address = rig.alloc(context, 2000)
        low, high = address, address + shift
        src, dst = (low, high) if forward else (high, low)
        rig.ok(Opcode.COPY_IN, {"dst": src, "size": 1000}, payload_in=data, context=context)
        rig.ok(Opcode.COPY_DEVICE, {"src": src, "dst": dst, "size": 1000}, context=context)
        reply = rig.ok(Opcode.COPY_OUT, {"src": dst, "size": 1000}, writable_len=1000, context=context)
        assert self.same(reply.payload, data)

    @pytest.mark.parametrize("unit", [1, 2, 4, 8])
    def test_fills_repeat_the_pattern(self, rig: Rig, context: int, unit: int) -> None:
        pattern = bytes(range(0x11, 0x99, 0x11))
        address = rig.alloc(context, 64)
        body = {"dst": address, "size": 64, "unit": unit, "value": int.from_bytes(pattern, "little")}
        rig.ok(Opcode.FILL, body, context=context)
        reply = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 64}, writable_len=64, context=context)
        assert self.same(reply.payload, pattern[:unit] * (64 // unit))

    # ---- launches --------------------------------------------------------------------------------

    def _add_one(self, function: int, address: int, count: int) -> tuple[dict[str, object], bytes]:
        return GEOMETRY | {"function": function, "param_len": 12}, struct.pack("<QI", address, count)

    def test_a_launch_computes(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        address = rig.alloc(context, 4000)
        rig.ok(Opcode.FILL, {"dst": address, "size": 4000, "unit": 4, "value": 41}, context=context)
        rig.ok(Opcode.LAUNCH, *self._add_one(functions["add_one"], address, 999), context=context)
        reply = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 4000}, writable_len=4000, context=context)
        assert self.same(reply.payload, struct.pack("<1000I", *[42] * 999, 41))

    def test_a_stream_keeps_its_order(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        """Operations of a stream run in order without a wait in between."""
        address = rig.alloc(context, 400)
        fill = {"dst": address, "size": 400, "unit": 4, "value": 0}
        requests = [rig.driver.submit(Opcode.FILL, fill, context=context, stream=1)]
        for _ in range(10):
            launch = self._add_one(functions["add_one"], address, 100)
            requests.append(rig.driver.submit(Opcode.LAUNCH, *launch, context=context, stream=1))
        copy = {"src": address, "size": 400}
        requests.append(rig.driver.submit(Opcode.COPY_OUT, copy, context=context, stream=1, writable_len=400))
        replies = [rig.driver.wait(request) for request in requests]
        assert {reply.status for reply in replies} == {Status.OK}
        assert self.same(replies[-1].payload, struct.pack("<100I", *[10] * 100))

    def test_streams_wait_for_events_of_others(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        address = rig.alloc(context, 4)
        event = {"event": rig.ok(Opcode.EVENT_CREATE, context=context).value}
        rig.ok(Opcode.FILL, {"dst": address, "size": 4, "unit": 4, "value": 0}, context=context)
        slow = GEOMETRY | {"function": functions["slow"], "param_len": 12}
        params = struct.pack("<QI", address, self.slow_rounds)
        requests = [
            rig.driver.submit(Opcode.LAUNCH, slow, params, context=context, stream=0),
            rig.driver.submit(Opcode.EVENT_RECORD, event, context=context, stream=0),
            rig.driver.submit(Opcode.EVENT_WAIT, event, context=context, stream=1),
        ]
        copy = {"src": address, "size": 4}
        requests.append(rig.driver.submit(Opcode.COPY_OUT, copy, context=context, stream=1, writable_len=4))
        replies = [rig.driver.wait(request) for request in requests]
        assert {reply.status for reply in replies} == {Status.OK}
        assert self.same(replies[-1].payload, struct.pack("<I", self.slow_rounds))

    def test_a_wait_for_an_event_never_recorded_ends_at_once(self, rig: Rig, context: int) -> None:
        event = {"event": rig.ok(Opcode.EVENT_CREATE, context=context).value}
        rig.ok(Opcode.EVENT_WAIT, event, context=context)

    def test_a_failed_launch_harms_no_other(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        if self.assert_ends_worker:
            pytest.skip("an assertion ends this engine's worker")
        address = rig.alloc(context, 4)
        failing = {"function": functions["fails"], "grid": [1, 1, 1], "block": [1, 1, 1]}
        reply = rig.driver.request(Opcode.LAUNCH, failing, context=context, writable_len=1000)
        assert reply.status is Status.ASSERT
        assert reply.text
        rig.ok(Opcode.LAUNCH, *self._add_one(functions["add_one"], address, 1), context=context)

    def test_cancelled_work_ends_with_its_context(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        """Each request is answered, and the context's work is gone."""
        address = rig.alloc(context, 4)
        slow = {"function": functions["slow"], "param_len": 12, "grid": [1 << 20, 1, 1], "block": [64, 1, 1]}
        params = struct.pack("<QI", address, self.slow_rounds)
        launches = [
            rig.driver.submit(Opcode.LAUNCH, slow, params, context=context, stream=stream) for stream in (0, 0, 1)
        ]
        assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
        assert {rig.driver.wait(launch).status for launch in launches} <= {Status.OK, Status.CANCELLED}
        usage = rig.usage()
        assert (usage.num_contexts, usage.num_programs, usage.memory_used_bytes, usage.in_flight) == (0, 0, 0, 0)

    def test_contexts_do_not_wait_for_one_another(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        other = rig.context()
        more = rig.load(other, self.image())
        mine, its = rig.alloc(context, 4), rig.alloc(other, 4)
        pairs = [(context, functions["add_one"], mine), (other, more["add_one"], its)] * 10
        requests = [
            rig.driver.submit(Opcode.LAUNCH, *self._add_one(function, address, 1), context=owner)
            for owner, function, address in pairs
        ]
        assert {rig.driver.wait(request).status for request in requests} == {Status.OK}

    def test_contexts_work_on_the_same_memory_in_the_order_of_events(
        self, rig: Rig, context: int, functions: dict[str, int]
    ) -> None:
        """The owner frees the memory while the other context still computes with it."""
        other = rig.context()
        add_one = rig.load(other, self.image())["add_one"]
        address = rig.alloc(context, 4)
        rig.ok(Opcode.FILL, {"dst": address, "size": 4, "unit": 4, "value": 0}, context=context)
        exported = rig.ok(Opcode.MEMORY_EXPORT, {"address": address}, context=context)
        key = {"key": [exported.value, exported.aux]}
        assert rig.ok(Opcode.MEMORY_OPEN, key, context=other).value == address
        mine = {"event": rig.ok(Opcode.EVENT_CREATE, context=context).value}
        exported = rig.ok(Opcode.EVENT_EXPORT, mine, context=context)
        key = {"key": [exported.value, exported.aux]}
        its = {"event": rig.ok(Opcode.EVENT_OPEN, key, context=other).value}
        slow = GEOMETRY | {"function": functions["slow"], "param_len": 12}
        params = struct.pack("<QI", address, self.slow_rounds)
        copy = {"src": address, "size": 4}
        requests = [
            rig.driver.submit(Opcode.LAUNCH, slow, params, context=context),
            rig.driver.submit(Opcode.EVENT_RECORD, mine, context=context),
            rig.driver.submit(Opcode.EVENT_WAIT, its, context=other),
            rig.driver.submit(Opcode.LAUNCH, *self._add_one(add_one, address, 1), context=other),
            rig.driver.submit(Opcode.EVENT_RECORD, its, context=other),
            rig.driver.submit(Opcode.EVENT_SYNC, mine, context=context),
            rig.driver.submit(Opcode.FREE, {"address": address}, context=context),
            rig.driver.submit(Opcode.COPY_OUT, copy, context=other, writable_len=4),
            rig.driver.submit(Opcode.MEMORY_CLOSE, {"address": address}, context=other),
        ]
        replies = [rig.driver.wait(request) for request in requests]
        assert {reply.status for reply in replies} == {Status.OK}
        assert self.same(replies[-2].payload, struct.pack("<I", self.slow_rounds + 1))
        assert refused_memory(rig, other, address)

    def test_a_call_copies_in_computes_and_copies_out(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        assert "add_one" in functions
        args = [(ArgKind.INOUT, 400), (ArgKind.VALUE, 4)]
        entries = b"".join(
            schema.CALL_ARG.construct.build({"kind": kind, "reserved": 0, "size": size}) for kind, size in args
        )
        body = GEOMETRY | {"name_len": 7, "num_args": 2, "value_len": 4}
        trailing = b"add_one" + entries + struct.pack("<I", 100)
        data = struct.pack("<100I", *range(100))
        reply = rig.ok(Opcode.CALL, body, trailing, payload_in=data, context=context, writable_len=400)
        assert self.same(reply.payload, struct.pack("<100I", *range(1, 101)))

    # ---- graphs ----------------------------------------------------------------------------------

    def _graph(self, rig: Rig, context: int, nodes: list[bytes]) -> dict[str, int]:
        body, data = nodes_request(nodes)
        return {"graph": rig.ok(Opcode.GRAPH_CREATE, body, data, context=context).value}

    def _steps(self, function: int, address: int, rounds: int) -> list[bytes]:
        """Nodes of which each needs the one before it, with overlapping and other copies between launches."""
        half, eight = 200, {"dst": address, "size": 400, "unit": 8, "value": 5 << 32 | 5}
        nodes = [node(Opcode.NOP), node(Opcode.FILL, eight)]
        for index in range(rounds):
            nodes.append(node(Opcode.LAUNCH, *self._add_one(function, address, 50), deps=[len(nodes) - 1]))
            move = {"dst": address + half, "src": address, "size": half}
            if index % 7 == 3:
                move = {"dst": address + 4, "src": address, "size": 4 * 99}
            nodes.append(node(Opcode.COPY_DEVICE, move, deps=[len(nodes) - 1]))
        return nodes

    @pytest.mark.parametrize("rounds", [1, 8, 60])
    def test_nodes_of_a_graph_are_carried_out_in_their_order(
        self, rig: Rig, context: int, functions: dict[str, int], rounds: int
    ) -> None:
        """Again and again, with requests before and behind that share the stream."""
        address = rig.alloc(context, 400)
        graph = self._graph(rig, context, self._steps(functions["add_one"], address, rounds))
        copy = {"src": address, "size": 400}
        requests = []
        for _ in range(4):
            launch = self._add_one(functions["add_one"], address, 100)
            requests.append(rig.driver.submit(Opcode.LAUNCH, *launch, context=context))
            requests.append(rig.driver.submit(Opcode.GRAPH_LAUNCH, graph, context=context))
            requests.append(rig.driver.submit(Opcode.LAUNCH, *launch, context=context))
            requests.append(rig.driver.submit(Opcode.COPY_OUT, copy, context=context, writable_len=400))
        replies = [rig.driver.wait(request) for request in requests]
        assert {reply.status for reply in replies} == {Status.OK}
        assert all(self.same(reply.payload, _stepped(rounds)) for reply in replies[3::4])

    def test_a_graph_of_many_launches_computes(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        address = rig.alloc(context, 400)
        fill = {"dst": address, "size": 400, "unit": 4, "value": 1}
        add = node(Opcode.LAUNCH, *self._add_one(functions["add_one"], address, 100))
        graph = self._graph(rig, context, [node(Opcode.FILL, fill), *[add] * 200])
        for _ in range(3):
            reply = rig.ok(Opcode.GRAPH_LAUNCH, graph, context=context)
            assert reply.exec_ns > 0
        out = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 400}, writable_len=400, context=context)
        assert self.same(out.payload, struct.pack("<100I", *[201] * 100))

    def test_a_graph_ends_with_the_first_node_that_fails(
        self, rig: Rig, context: int, functions: dict[str, int]
    ) -> None:
        if self.assert_ends_worker:
            pytest.skip("an assertion ends this engine's worker")
        address = rig.alloc(context, 400)
        rig.ok(Opcode.FILL, {"dst": address, "size": 400, "unit": 4, "value": 0}, context=context)
        add = node(Opcode.LAUNCH, *self._add_one(functions["add_one"], address, 100))
        fails = node(Opcode.LAUNCH, {"function": functions["fails"], "grid": [1, 1, 1], "block": [1, 1, 1]})
        graph = self._graph(rig, context, [add, add, fails, add, node(Opcode.NOP)])
        reply = rig.driver.request(Opcode.GRAPH_LAUNCH, graph, context=context, writable_len=1000)
        assert (reply.status, reply.text[:8]) == (Status.ASSERT, "node 2: ")
        out = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 400}, writable_len=400, context=context)
        assert self.same(out.payload, struct.pack("<100I", *[2] * 100))

    def test_graphs_of_a_context_end_with_it(self, rig: Rig, context: int, functions: dict[str, int]) -> None:
        address = rig.alloc(context, 4)
        body = {"function": functions["slow"], "param_len": 12, "grid": [1 << 12, 1, 1], "block": [64, 1, 1]}
        slow = node(Opcode.LAUNCH, body, struct.pack("<QI", address, self.slow_rounds))
        graph = self._graph(rig, context, [slow] * 50)
        runs = [rig.driver.submit(Opcode.GRAPH_LAUNCH, graph, context=context, stream=stream) for stream in (0, 0, 1)]
        assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
        assert {rig.driver.wait(run).status for run in runs} <= {Status.OK, Status.CANCELLED}
        usage = rig.usage()
        assert (usage.num_contexts, usage.memory_used_bytes, usage.in_flight) == (0, 0, 0)

    # ---- programs --------------------------------------------------------------------------------

    def test_bytes_that_are_no_program_are_refused_with_a_reason(self, rig: Rig, context: int) -> None:
        body = {"kind": 1, "source_len": 9}
        pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, b"no image!", context=context, writable_len=500)
        rig.serve_cold()
        rig.answer_compile()
        reply = rig.driver.wait(pending)
        assert reply.status is Status.COMPILE_FAILED
        assert reply.text

    def test_programs_come_and_go(self, rig: Rig, context: int) -> None:
        for _ in range(5):
            rig.load(context, self.image())
            program = {"program": rig.programs[-1]}
            assert rig.cold(Opcode.PROGRAM_UNLOAD, program, context=context).status is Status.OK
        assert rig.usage().num_programs == 0
