"""Limits that change while the data plane serves: raised at once, lowered below use without a loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend.worker.plane import DataPlaneError
from vhost_backend.worker_protocol.protocol import Limits, Quota
from virtio_proto.schema import LIMITS as WIRE_LIMITS
from virtio_proto.schema import Opcode, Status

LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0, "param_len": 0}
TEXT_BYTES = 256


def may_raise(limit: str) -> str:
    """End of a refusal, for the person at the guest: who may raise the limit."""
    return f"; the host's operator may raise it: vgcctl vm limits VM --{limit}"


ROUNDS = 2000
"""Requests that make the loop check deadlines several times."""


def change(rig: Rig, **changes: Any) -> None:
    """Changes some limits of a rig whose limits are `LIMITS`."""
    given = {
        "pes": 1,
        "memory_bytes": LIMITS.memory_bytes,
        "queue_depth": LIMITS.queue_depth,
        "deadline_ns": LIMITS.deadline_ns,
        "max_contexts": LIMITS.max_contexts,
        "max_streams": LIMITS.max_streams,
        "allotment": 2,
    } | changes
    quota = Quota(
        rig.engine.num_pes if "pes" not in changes else given["pes"], given["memory_bytes"], given["queue_depth"]
    )
    rig.plane.set_limits(
        Limits(0, quota, given["deadline_ns"], given["max_contexts"], given["max_streams"], given["allotment"])
    )


def test_memory_below_use_is_kept_and_more_is_refused_until_use_is_below() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        kept = [rig.alloc(context, 300_000) for _ in range(2)]
        change(rig, memory_bytes=400_000)
        refused = rig.driver.request(Opcode.ALLOC, {"size": 4096}, context=context, writable_len=TEXT_BYTES)
        assert (refused.status, refused.text) == (
            Status.OUT_OF_MEMORY,
            "asked 4096 bytes, 0 of 400000 bytes free" + may_raise("memory"),
        )
        for address in kept:
            rig.ok(Opcode.COPY_IN, {"dst": address, "size": 256}, bytes(256), context=context)
        rig.ok(Opcode.FREE, {"address": kept[0]}, context=context)
        rig.alloc(context, 4096)
        rig.ok(Opcode.COPY_IN, {"dst": kept[1], "size": 256}, bytes(256), context=context)


def test_raised_memory_can_be_had_at_once() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        assert rig.driver.request(Opcode.ALLOC, {"size": 2 << 20}, context=context).status == Status.OUT_OF_MEMORY
        change(rig, memory_bytes=4 << 20)
        rig.alloc(context, 2 << 20)


def test_requests_beyond_a_lower_depth_run_on_and_further_ones_are_refused() -> None:
    with plane_rig(replace(LIMITS, queue_depth=4)) as rig:
        context = rig.context()
        launch = LAUNCH | {"function": rig.load(context, "kernel hold behaviour=hold")["hold"]}
        held = [rig.driver.submit(Opcode.LAUNCH, launch, context=context) for _ in range(3)]
        rig.ok(Opcode.NOP)
        change(rig, queue_depth=1)
        refused = rig.driver.request(Opcode.NOP, writable_len=TEXT_BYTES)
        assert (refused.status, refused.text) == (
            Status.RESOURCES_EXHAUSTED,
            "3 requests are in flight; this VM's quota is 1" + may_raise("queue-depth"),
        )
        assert [launch.reply for launch in held] == [None] * 3
        change(rig, queue_depth=4)
        rig.ok(Opcode.NOP)


def test_raised_depth_has_room_for_as_many_requests() -> None:
    with plane_rig(replace(LIMITS, queue_depth=1)) as rig:
        context = rig.context()
        launch = LAUNCH | {"function": rig.load(context, "kernel hold behaviour=hold")["hold"]}
        held = [rig.driver.submit(Opcode.LAUNCH, launch, context=context)]
        assert rig.driver.request(Opcode.NOP).status == Status.RESOURCES_EXHAUSTED
        change(rig, queue_depth=20)
        held += [rig.driver.submit(Opcode.LAUNCH, launch, context=context) for _ in range(18)]
        rig.ok(Opcode.NOP)
        held.append(rig.driver.submit(Opcode.LAUNCH, launch, context=context))
        assert rig.driver.request(Opcode.NOP).status == Status.RESOURCES_EXHAUSTED
        assert rig.usage().in_flight == len(held) == 20


def test_contexts_beyond_a_lower_limit_live_on() -> None:
    with plane_rig(LIMITS) as rig:
        contexts = [rig.context() for _ in range(3)]
        change(rig, max_contexts=2)
        refused = rig.driver.request(Opcode.CONTEXT_CREATE, writable_len=TEXT_BYTES)
        assert (refused.status, refused.text) == (
            Status.RESOURCES_EXHAUSTED,
            "3 contexts exist; this VM's quota is 2" + may_raise("contexts"),
        )
        for context in contexts:
            rig.alloc(context, 16)
        for context in contexts[:2]:
            rig.cold(Opcode.CONTEXT_DESTROY, context=context)
        assert rig.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        rig.alloc(contexts[2], 16)


def test_streams_beyond_a_lower_limit_take_nothing_new() -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        rig.ok(Opcode.NOP, context=context, stream=3)
        change(rig, max_streams=2)
        refused = rig.driver.request(Opcode.NOP, context=context, stream=3, writable_len=TEXT_BYTES)
        assert (refused.status, refused.text) == (
            Status.INVALID_ARGUMENT,
            "stream 3; allowed: 0..1" + may_raise("streams"),
        )
        change(rig, max_streams=8)
        rig.ok(Opcode.NOP, context=context, stream=7)


def test_launch_under_way_keeps_its_deadline_when_that_is_lowered() -> None:
    """Past its deadline, a launch ends the process, which here is the test's."""
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        launch = LAUNCH | {"function": rig.load(context, "kernel hold behaviour=hold")["hold"]}
        held = rig.driver.submit(Opcode.LAUNCH, launch, context=context)
        rig.ok(Opcode.NOP)
        change(rig, deadline_ns=1)
        for _ in range(ROUNDS):
            rig.ok(Opcode.NOP)
        assert held.reply is None


def test_responses_bear_the_number_of_the_latest_limits() -> None:
    with plane_rig(replace(LIMITS, allotment=7)) as rig:
        assert rig.ok(Opcode.NOP).allotment == 7
        change(rig, allotment=8)
        assert rig.ok(Opcode.NOP).allotment == 8
        assert rig.driver.request(0x7777).allotment == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue_depth": 0},
        {"queue_depth": WIRE_LIMITS["MAX_QUEUES"] * WIRE_LIMITS["MAX_QUEUE_SIZE"] + 1},
        {"max_contexts": 0},
        {"max_contexts": WIRE_LIMITS["MAX_CONTEXTS"] + 1},
        {"max_streams": WIRE_LIMITS["MAX_STREAMS"] + 1},
        {"deadline_ns": 0},
        {"pes": 1000},
    ],
)
def test_limits_out_of_range_change_nothing(wrong: dict[str, int]) -> None:
    with plane_rig(LIMITS) as rig:
        context = rig.context()
        with pytest.raises(DataPlaneError):
            change(rig, memory_bytes=1, **wrong)
        rig.alloc(context, LIMITS.memory_bytes // 2)
        assert rig.ok(Opcode.NOP).allotment == 0
