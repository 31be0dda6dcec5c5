"""Memory and events that contexts share by keys: statuses, lifetimes, limits, hostile forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.driver import Pending
from tests.fakes.graph import node, nodes_request
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from virtio_proto import schema
from virtio_proto.schema import Opcode, Status

LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}
MAX_SHARES = schema.LIMITS["MAX_SHARES"]
MAX_EVENTS = schema.LIMITS["MAX_EVENTS"]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def refused(rig: Rig, opcode: Opcode, body: dict[str, Any], context: int) -> Status:
    reply = rig.driver.request(opcode, body, context=context, writable_len=200)
    assert reply.text
    return reply.status


def export(rig: Rig, context: int, address: int) -> dict[str, list[int]]:
    """The body of a MEMORY_OPEN."""
    reply = rig.ok(Opcode.MEMORY_EXPORT, {"address": address}, context=context)
    return {"key": [reply.value, reply.aux]}


def export_event(rig: Rig, context: int, event: int) -> dict[str, list[int]]:
    reply = rig.ok(Opcode.EVENT_EXPORT, {"event": event}, context=context)
    return {"key": [reply.value, reply.aux]}


def can_use(rig: Rig, context: int, address: int, size: int = 100) -> bool:
    reply = rig.driver.request(Opcode.FILL, {"dst": address, "size": size, "unit": 1}, context=context)
    assert reply.status in (Status.OK, Status.INVALID_ADDRESS)
    return reply.status is Status.OK


def destroy(rig: Rig, context: int) -> None:
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK


class Pair:
    """An owner of 100 bytes, and a user that has them open."""

    def __init__(self, rig: Rig) -> None:
        self.owner, self.user = rig.context(), rig.context()
        self.address = rig.alloc(self.owner, 100)
        self.key = export(rig, self.owner, self.address)
        self.opened = rig.ok(Opcode.MEMORY_OPEN, self.key, context=self.user)


class Held:
    """A context whose stream 1 is held up by a launch until `release`."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.context = rig, rig.context()
        ids = rig.load(self.context, "kernel hold behaviour=hold\nkernel release behaviour=release")
        self._release = LAUNCH | {"function": ids["release"]}
        launch = LAUNCH | {"function": ids["hold"]}
        self.launch = rig.driver.submit(Opcode.LAUNCH, launch, context=self.context, stream=1)

    def release(self) -> None:
        self.rig.ok(Opcode.LAUNCH, self._release, context=self.context, stream=2)


# ---- memory ----------------------------------------------------------------------------------------


def test_opened_memory_is_used_as_the_contexts_own(rig: Rig) -> None:
    pair = Pair(rig)
    assert (pair.opened.value, pair.opened.aux) == (pair.address, 100)
    rig.ok(Opcode.FILL, {"dst": pair.address, "size": 100, "value": 7, "unit": 1}, context=pair.user)
    own = rig.alloc(pair.user, 100)
    rig.ok(Opcode.COPY_DEVICE, {"dst": own, "src": pair.address, "size": 100}, context=pair.user)
    assert not can_use(rig, pair.user, pair.address, 101)
    assert not can_use(rig, rig.context(), pair.address)


def test_memory_that_was_not_opened_stays_the_owners(rig: Rig) -> None:
    owner, other = rig.context(), rig.context()
    address = rig.alloc(owner, 100)
    export(rig, owner, address)
    assert not can_use(rig, other, address)


def test_each_export_of_the_same_memory_gives_the_same_key(rig: Rig) -> None:
    owner = rig.context()
    first, second = rig.alloc(owner, 100), rig.alloc(owner, 100)
    assert export(rig, owner, first) == export(rig, owner, first)
    assert export(rig, owner, first) != export(rig, owner, second)


def test_keys_are_random(rig: Rig) -> None:
    owner = rig.context()
    halves = [half for _ in range(8) for half in export(rig, owner, rig.alloc(owner, 1))["key"]]
    assert len(set(halves)) == 16
    assert all((half ^ other).bit_count() > 5 for half in halves for other in halves if half != other)


def test_only_whole_allocations_of_the_context_are_exported(rig: Rig) -> None:
    pair = Pair(rig)
    for context, address in ((pair.owner, pair.address + 1), (pair.owner, 0), (pair.user, pair.address)):
        assert refused(rig, Opcode.MEMORY_EXPORT, {"address": address}, context) is Status.INVALID_ADDRESS
    rig.load(pair.owner, "global g 8")
    variable = rig.cold(Opcode.GLOBAL_LOOKUP, {"name_len": 1}, b"g", context=pair.owner, writable_len=200).value
    assert refused(rig, Opcode.MEMORY_EXPORT, {"address": variable}, pair.owner) is Status.INVALID_ADDRESS


def test_wrong_keys_open_nothing(rig: Rig) -> None:
    pair = Pair(rig)
    low, high = pair.key["key"]
    event = rig.ok(Opcode.EVENT_CREATE, context=pair.owner).value
    of_event = export_event(rig, pair.owner, event)
    wrong = [[0, 0], [low, 0], [0, high], [high, low], [low ^ 1, high], [low, high ^ (1 << 63)], of_event["key"]]
    for key in wrong:
        assert refused(rig, Opcode.MEMORY_OPEN, {"key": key}, pair.user) is Status.NOT_FOUND
    for key in [*wrong[:-1], pair.key["key"]]:
        assert refused(rig, Opcode.EVENT_OPEN, {"key": key}, pair.user) is Status.NOT_FOUND


def test_a_context_does_not_open_what_is_its_own(rig: Rig) -> None:
    pair = Pair(rig)
    assert refused(rig, Opcode.MEMORY_OPEN, pair.key, pair.owner) is Status.INVALID_ARGUMENT
    event = rig.ok(Opcode.EVENT_CREATE, context=pair.owner).value
    key = export_event(rig, pair.owner, event)
    assert refused(rig, Opcode.EVENT_OPEN, key, pair.owner) is Status.INVALID_ARGUMENT


def test_closed_memory_is_the_owners_alone(rig: Rig) -> None:
    pair = Pair(rig)
    rig.ok(Opcode.MEMORY_OPEN, pair.key, context=pair.user)  # the same as once
    rig.ok(Opcode.MEMORY_CLOSE, {"address": pair.address}, context=pair.user)
    assert not can_use(rig, pair.user, pair.address)
    assert can_use(rig, pair.owner, pair.address)
    assert refused(rig, Opcode.MEMORY_CLOSE, {"address": pair.address}, pair.user) is Status.INVALID_ADDRESS
    assert rig.ok(Opcode.MEMORY_OPEN, pair.key, context=pair.user).value == pair.address


def test_only_open_memory_is_closed(rig: Rig) -> None:
    pair = Pair(rig)
    for context, address in ((pair.owner, pair.address), (pair.user, pair.address + 1), (pair.user, 0)):
        assert refused(rig, Opcode.MEMORY_CLOSE, {"address": address}, context) is Status.INVALID_ADDRESS
    assert refused(rig, Opcode.FREE, {"address": pair.address}, pair.user) is Status.INVALID_ADDRESS
    assert can_use(rig, pair.user, pair.address)


def test_close_waits_for_earlier_work_of_the_context(rig: Rig) -> None:
    held = Held(rig)
    owner = rig.context()
    address = rig.alloc(owner, 100)
    rig.ok(Opcode.MEMORY_OPEN, export(rig, owner, address), context=held.context)
    closing = rig.driver.submit(Opcode.MEMORY_CLOSE, {"address": address}, context=held.context)
    assert not can_use(rig, held.context, address), "later requests may not use it"
    rig.ok(Opcode.FREE, {"address": address}, context=owner)
    assert rig.usage().memory_used_bytes == 4096, "the launch may still use it"
    assert closing.reply is None
    held.release()
    assert rig.driver.wait(closing).status is Status.OK
    assert rig.usage().memory_used_bytes == 0


def test_freed_memory_stays_until_the_last_user_has_closed_it(rig: Rig) -> None:
    pair = Pair(rig)
    third = rig.context()
    rig.ok(Opcode.MEMORY_OPEN, pair.key, context=third)
    rig.ok(Opcode.FREE, {"address": pair.address}, context=pair.owner)
    assert [can_use(rig, context, pair.address) for context in (pair.owner, pair.user, third)] == [False, True, True]
    for context in (pair.owner, third, rig.context()):
        assert refused(rig, Opcode.MEMORY_OPEN, pair.key, context) is Status.NOT_FOUND
    assert refused(rig, Opcode.FREE, {"address": pair.address}, pair.owner) is Status.INVALID_ADDRESS
    rig.ok(Opcode.MEMORY_CLOSE, {"address": pair.address}, context=pair.user)
    assert (rig.usage().memory_used_bytes, rig.usage().num_allocations) == (4096, 1)
    destroy(rig, third)
    assert (rig.usage().memory_used_bytes, rig.usage().num_allocations) == (0, 0)


def test_a_key_is_void_once_the_free_was_taken(rig: Rig) -> None:
    held = Held(rig)
    address = rig.alloc(held.context, 100)
    key = export(rig, held.context, address)
    freeing = rig.driver.submit(Opcode.FREE, {"address": address}, context=held.context)
    assert refused(rig, Opcode.MEMORY_OPEN, key, rig.context()) is Status.NOT_FOUND
    assert refused(rig, Opcode.MEMORY_EXPORT, {"address": address}, held.context) is Status.INVALID_ADDRESS
    held.release()
    assert rig.driver.wait(freeing).status is Status.OK
    assert rig.usage().memory_used_bytes == 0


def test_memory_outlives_the_context_that_made_it_while_others_have_it_open(rig: Rig) -> None:
    pair = Pair(rig)
    unshared = rig.alloc(pair.owner, 5000)
    export(rig, pair.owner, unshared)
    destroy(rig, pair.owner)
    assert rig.usage().memory_used_bytes == 4096
    assert can_use(rig, pair.user, pair.address)
    assert refused(rig, Opcode.MEMORY_OPEN, pair.key, pair.user) is Status.NOT_FOUND
    newcomer = rig.context()  # has the number of the one that is gone
    assert not can_use(rig, newcomer, pair.address)
    destroy(rig, newcomer)
    assert can_use(rig, pair.user, pair.address)
    destroy(rig, pair.user)
    assert (rig.usage().memory_used_bytes, rig.usage().num_allocations) == (0, 0)


def test_a_context_that_ends_closes_what_it_has_open(rig: Rig) -> None:
    pair = Pair(rig)
    destroy(rig, pair.user)
    newcomer = rig.context()
    assert not can_use(rig, newcomer, pair.address)
    rig.ok(Opcode.FREE, {"address": pair.address}, context=pair.owner)
    assert rig.usage().memory_used_bytes == 0


def test_context_destroy_ends_a_close_that_waits(rig: Rig) -> None:
    held = Held(rig)
    owner = rig.context()
    address = rig.alloc(owner, 100)
    rig.ok(Opcode.MEMORY_OPEN, export(rig, owner, address), context=held.context)
    closing = rig.driver.submit(Opcode.MEMORY_CLOSE, {"address": address}, context=held.context)
    rig.ok(Opcode.FREE, {"address": address}, context=owner)
    destroy(rig, held.context)
    assert rig.driver.wait(closing).status is Status.OK
    assert rig.usage().memory_used_bytes == 0


def test_shared_memory_is_charged_once(rig: Rig) -> None:
    pair = Pair(rig)
    for _ in range(LIMITS.max_contexts - 2):
        rig.ok(Opcode.MEMORY_OPEN, pair.key, context=rig.context())
    assert rig.usage().memory_used_bytes == 4096


def test_graphs_of_a_user_are_refused_once_it_has_closed_their_memory(rig: Rig) -> None:
    pair = Pair(rig)
    fill = node(Opcode.FILL, {"dst": pair.address, "size": 100, "unit": 1})
    graph = {"graph": rig.ok(Opcode.GRAPH_CREATE, *nodes_request([fill]), context=pair.user).value}
    rig.ok(Opcode.GRAPH_LAUNCH, graph, context=pair.user)
    rig.ok(Opcode.FREE, {"address": pair.address}, context=pair.owner)
    rig.ok(Opcode.GRAPH_LAUNCH, graph, context=pair.user)
    rig.ok(Opcode.MEMORY_CLOSE, {"address": pair.address}, context=pair.user)
    assert refused(rig, Opcode.GRAPH_LAUNCH, graph, pair.user) is Status.INVALID_ADDRESS


# ---- events ----------------------------------------------------------------------------------------


def open_event(rig: Rig, owner: int, user: int) -> tuple[dict[str, int], dict[str, int]]:
    """Bodies for an event of `owner`, and for what `user` has opened of it."""
    event = rig.ok(Opcode.EVENT_CREATE, context=owner).value
    opened = rig.ok(Opcode.EVENT_OPEN, export_event(rig, owner, event), context=user).value
    assert opened != event
    return {"event": event}, {"event": opened}


def happened(rig: Rig, context: int, event: dict[str, int]) -> bool:
    return bool(rig.ok(Opcode.EVENT_QUERY, event, context=context).value)


def test_a_record_of_one_context_is_waited_for_by_the_other(rig: Rig) -> None:
    """Either may record, and either is told of the latest record."""
    held, other = Held(rig), rig.context()
    for owner, user in ((held.context, other), (other, held.context)):
        mine, yours = open_event(rig, owner, user)
        by_context = {owner: mine, user: yours}
        assert happened(rig, owner, mine)
        assert happened(rig, user, yours)
        record = rig.driver.submit(Opcode.EVENT_RECORD, by_context[held.context], context=held.context, stream=1)
        assert not happened(rig, owner, mine)
        assert not happened(rig, user, yours)
        rig.ok(Opcode.EVENT_RECORD, by_context[other], context=other)
        assert happened(rig, owner, mine)
        assert record.reply is None
    held.release()


def test_sync_ends_with_the_record_that_it_waits_for(rig: Rig) -> None:
    held, other = Held(rig), rig.context()
    mine, yours = open_event(rig, held.context, other)
    rig.ok(Opcode.EVENT_SYNC, yours, context=other)
    record = rig.driver.submit(Opcode.EVENT_RECORD, mine, context=held.context, stream=1)
    waits = [
        rig.driver.submit(Opcode.EVENT_SYNC, event, context=context)
        for event, context in ((mine, held.context), (yours, other), (yours, other))
    ]
    rig.ok(Opcode.EVENT_RECORD, yours, context=other)
    rig.ok(Opcode.EVENT_SYNC, yours, context=other)
    assert [pending.reply for pending in (record, *waits)] == [None] * 4
    held.release()
    assert {rig.driver.wait(pending).status for pending in (record, *waits)} == {Status.OK}


def test_sync_is_cancelled_with_its_context_and_not_with_the_other(rig: Rig) -> None:
    held, other = Held(rig), rig.context()
    mine, yours = open_event(rig, held.context, other)
    rig.driver.submit(Opcode.EVENT_RECORD, mine, context=held.context, stream=1)
    syncs = [
        rig.driver.submit(Opcode.EVENT_SYNC, event, context=context, writable_len=50)
        for event, context in ((mine, held.context), (yours, other))
    ]
    destroy(rig, other)
    assert rig.driver.wait(syncs[1]).status is Status.CANCELLED
    assert syncs[0].reply is None
    held.release()
    assert rig.driver.wait(syncs[0]).status is Status.OK


def test_records_of_a_context_that_ends_have_happened(rig: Rig) -> None:
    held, other = Held(rig), rig.context()
    mine, yours = open_event(rig, held.context, other)
    record = rig.driver.submit(Opcode.EVENT_RECORD, mine, context=held.context, stream=1, writable_len=50)
    sync = rig.driver.submit(Opcode.EVENT_SYNC, yours, context=other)
    destroy(rig, held.context)
    assert rig.driver.wait(record).status is Status.CANCELLED
    assert rig.driver.wait(sync).status is Status.OK
    assert happened(rig, other, yours)


def test_events_are_used_on_after_their_owner_has_gone(rig: Rig) -> None:
    for end in ("destroy the event", "destroy the context"):
        owner, user = rig.context(), rig.context()
        mine, yours = open_event(rig, owner, user)
        key = export_event(rig, owner, mine["event"])
        if end == "destroy the event":
            rig.ok(Opcode.EVENT_DESTROY, mine, context=owner)
            assert refused(rig, Opcode.EVENT_RECORD, mine, owner) is Status.NOT_FOUND
        else:
            destroy(rig, owner)
        for opcode in (Opcode.EVENT_RECORD, Opcode.EVENT_WAIT, Opcode.EVENT_QUERY, Opcode.EVENT_SYNC):
            rig.ok(opcode, yours, context=user)
        assert refused(rig, Opcode.EVENT_OPEN, key, user) is Status.NOT_FOUND
        rig.ok(Opcode.EVENT_DESTROY, yours, context=user)
        for context in {owner, user} if end == "destroy the event" else {user}:
            destroy(rig, context)


def test_opened_events_belong_to_their_context_and_are_not_exported(rig: Rig) -> None:
    owner, user = rig.context(), rig.context()
    mine, yours = open_event(rig, owner, user)
    for opcode in (Opcode.EVENT_RECORD, Opcode.EVENT_SYNC, Opcode.EVENT_QUERY, Opcode.EVENT_EXPORT):
        assert refused(rig, opcode, mine, user) is Status.NOT_FOUND
        assert refused(rig, opcode, yours, owner) is Status.NOT_FOUND
    assert refused(rig, Opcode.EVENT_EXPORT, yours, user) is Status.INVALID_ARGUMENT


@pytest.mark.parametrize("opcode", [Opcode.EVENT_QUERY, Opcode.EVENT_SYNC, Opcode.EVENT_EXPORT])
def test_reserved_is_checked(rig: Rig, opcode: Opcode) -> None:
    context = rig.context()
    event = rig.ok(Opcode.EVENT_CREATE, context=context).value
    assert refused(rig, opcode, {"event": event, "reserved": 1}, context) is Status.BAD_REQUEST


def test_an_event_may_be_opened_several_times(rig: Rig) -> None:
    owner, user = rig.context(), rig.context()
    event = rig.ok(Opcode.EVENT_CREATE, context=owner).value
    key = export_event(rig, owner, event)
    first, second = (rig.ok(Opcode.EVENT_OPEN, key, context=user).value for _ in range(2))
    rig.ok(Opcode.EVENT_DESTROY, {"event": first}, context=user)
    rig.ok(Opcode.EVENT_RECORD, {"event": second}, context=user)
    assert refused(rig, Opcode.EVENT_RECORD, {"event": first}, user) is Status.NOT_FOUND


# ---- limits ----------------------------------------------------------------------------------------


def test_events_opened_again_and_again_end_at_the_limit_and_are_all_freed(rig: Rig) -> None:
    owner, user = rig.context(), rig.context()
    event = rig.ok(Opcode.EVENT_CREATE, context=owner).value
    key = export_event(rig, owner, event)
    for _ in range(MAX_EVENTS - 1):
        rig.ok(Opcode.EVENT_OPEN, key, context=user)
    assert refused(rig, Opcode.EVENT_OPEN, key, user) is Status.RESOURCES_EXHAUSTED
    assert rig.driver.request(Opcode.EVENT_CREATE, context=owner).status is Status.RESOURCES_EXHAUSTED
    destroy(rig, owner)
    destroy(rig, user)
    context = rig.context()
    for _ in range(MAX_EVENTS):
        rig.ok(Opcode.EVENT_CREATE, context=context)


def test_shares_end_at_the_limit_and_are_all_freed(rig: Rig) -> None:
    owner, user = rig.context(), rig.context()
    events = [rig.ok(Opcode.EVENT_CREATE, context=owner).value for _ in range(MAX_SHARES)]
    address = rig.alloc(owner, 100)
    for event in events:
        export_event(rig, owner, event)
    assert refused(rig, Opcode.MEMORY_EXPORT, {"address": address}, owner) is Status.RESOURCES_EXHAUSTED
    rig.ok(Opcode.EVENT_DESTROY, {"event": events[7]}, context=owner)
    event = rig.ok(Opcode.EVENT_CREATE, context=owner).value
    key = export(rig, owner, address)
    assert refused(rig, Opcode.EVENT_EXPORT, {"event": event}, owner) is Status.RESOURCES_EXHAUSTED
    rig.ok(Opcode.MEMORY_OPEN, key, context=user)
    destroy(rig, owner)
    for _ in range(MAX_SHARES - 1):  # the memory takes one
        event = rig.ok(Opcode.EVENT_CREATE, context=user).value
        export_event(rig, user, event)
    rig.ok(Opcode.MEMORY_CLOSE, {"address": address}, context=user)
    export(rig, user, rig.alloc(user, 1))


def test_opens_race_with_the_owners_free(rig: Rig) -> None:
    """Two queues: each open either finds the memory, and keeps it, or does not; nothing is left in the end."""
    owner, user = rig.context(), rig.context()
    for _ in range(200):
        address = rig.alloc(owner, 100)
        key = export(rig, owner, address)
        opening: Pending = rig.driver.submit(Opcode.MEMORY_OPEN, key, context=user, queue=1)
        rig.ok(Opcode.FREE, {"address": address}, context=owner)
        opened = rig.driver.wait(opening, queue=1)
        assert opened.status in (Status.OK, Status.NOT_FOUND)
        assert can_use(rig, user, address) == (opened.status is Status.OK)
        if opened.status is Status.OK:
            rig.ok(Opcode.MEMORY_CLOSE, {"address": address}, context=user)
    assert (rig.usage().memory_used_bytes, rig.usage().num_allocations) == (0, 0)
