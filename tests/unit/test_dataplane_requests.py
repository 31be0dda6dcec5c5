"""Every request that the data plane serves: its answers and all its refusals."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from tests.unit.test_dataplane_limits import may_raise
from tests.waiting import until
from vhost_backend.config.daemon import MIB
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.engines.null import NullEngine, make_kernel
from vhost_backend.sandbox import memfd
from vhost_backend.worker.plane import DataPlaneError
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import Program
from virtio_proto import schema
from virtio_proto.schema import LaunchFlag, Opcode, ParamKind, Status

TEXT_ROOM = 1024
LAUNCH = {"grid": [1, 1, 1], "block": [1, 1, 1]}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def refused(rig: Rig, opcode: int, body: Any = b"", **options: Any) -> tuple[Status, str]:
    """Sends a request that must fail; returns status and text."""
    reply = rig.driver.request(opcode, body, **({"writable_len": TEXT_ROOM} | options))
    assert reply.status is not Status.OK
    assert reply.text, f"{reply.status.name} without a text"
    return reply.status, reply.text


# ---- every request ---------------------------------------------------------------------------------


def test_nop_without_context_is_answered_at_once(rig: Rig) -> None:
    reply = rig.ok(Opcode.NOP)
    assert (reply.used_len, reply.value, reply.aux) == (48, 0, 0)


def test_nop_with_a_context_ends_behind_its_stream(rig: Rig) -> None:
    context = rig.context()
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    held = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context, stream=1)
    nop = rig.driver.submit(Opcode.NOP, context=context, stream=1)
    rig.ok(Opcode.NOP, context=context, stream=2)
    assert (held.reply, nop.reply) == (None, None)
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=2)
    assert rig.driver.wait(nop).status is Status.OK
    assert held.reply is not None


def test_unknown_opcode_is_unsupported(rig: Rig) -> None:
    assert refused(rig, 0x77)[0] is Status.UNSUPPORTED
    assert refused(rig, 0xFFFF)[0] is Status.UNSUPPORTED


def test_opcode_with_swapped_bytes_is_called_that(rig: Rig) -> None:
    """Tells a big-endian driver that does not convert what is wrong with it."""
    status, text = refused(rig, 0x5000)
    assert status is Status.UNSUPPORTED
    assert text.startswith("opcode 0x5000 is not known, but it is with its bytes swapped")
    assert "swapped" not in refused(rig, 0x7700)[1]


def test_flags_must_be_zero(rig: Rig) -> None:
    assert refused(rig, Opcode.NOP, flags=1)[0] is Status.BAD_REQUEST


def test_streams_end_at_the_quota(rig: Rig) -> None:
    rig.ok(Opcode.NOP, context=rig.context(), stream=LIMITS.max_streams - 1)
    assert refused(rig, Opcode.NOP, stream=LIMITS.max_streams)[0] is Status.INVALID_ARGUMENT


@pytest.mark.parametrize("opcode", [op for op in Opcode if op not in (Opcode.QUERY, Opcode.CONTEXT_CREATE)])
def test_requests_need_a_live_context(rig: Rig, opcode: Opcode) -> None:
    assert refused(rig, opcode, {} if opcode in schema.BODIES else b"", context=12345)[0] is Status.NO_CONTEXT


@pytest.mark.parametrize("opcode", list(schema.BODIES))
def test_a_body_cut_short_is_refused(rig: Rig, opcode: Opcode) -> None:
    body = bytes(schema.BODIES[opcode].size_bytes - 1)
    assert refused(rig, opcode, body, context=rig.context())[0] is Status.BAD_REQUEST


def test_bytes_behind_a_complete_request_are_refused(rig: Rig) -> None:
    assert refused(rig, Opcode.NOP, b"x")[0] is Status.BAD_REQUEST


def test_query_tells_usage(rig: Rig) -> None:
    context = rig.context()
    rig.alloc(context, 100)
    reply = rig.ok(Opcode.QUERY, {"what": 1}, writable_len=64)
    usage = schema.USAGE.construct.parse(reply.payload)
    assert (usage.memory_used_bytes, usage.memory_quota_bytes) == (4096, LIMITS.memory_bytes)
    assert (usage.num_contexts, usage.num_allocations, usage.in_flight) == (1, 1, 1)


def test_query_writes_the_part_that_fits_and_reports_the_full_size(rig: Rig) -> None:
    reply = rig.ok(Opcode.QUERY, {"what": 1}, writable_len=8)
    assert (len(reply.payload), reply.aux) == (8, schema.USAGE.size_bytes)


def test_query_refuses_unknown_kinds(rig: Rig) -> None:
    assert refused(rig, Opcode.QUERY, {"what": 4})[0] is Status.INVALID_ARGUMENT
    assert refused(rig, Opcode.QUERY, {"what": 1, "reserved": 1})[0] is Status.BAD_REQUEST


# ---- contexts --------------------------------------------------------------------------------------


def test_contexts_end_at_the_quota_and_a_destroyed_one_makes_room(rig: Rig) -> None:
    contexts = [rig.context() for _ in range(LIMITS.max_contexts)]
    assert len(set(contexts)) == LIMITS.max_contexts
    assert refused(rig, Opcode.CONTEXT_CREATE)[0] is Status.RESOURCES_EXHAUSTED
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=contexts[1]).status is Status.OK
    assert rig.context() not in contexts


def test_a_stale_context_id_is_not_the_next_one(rig: Rig) -> None:
    stale = rig.context()
    rig.cold(Opcode.CONTEXT_DESTROY, context=stale)
    rig.context()
    assert refused(rig, Opcode.NOP, context=stale)[0] is Status.NO_CONTEXT


def test_a_context_of_an_earlier_worker_is_none_of_the_next_ones() -> None:
    """Those of 40 workers that follow each other, of which each makes and destroys the first of its contexts 20 times."""
    ids: set[int] = set()
    for generation in range(1, 41):
        with plane_rig(replace(LIMITS, generation=generation)) as rig:
            first, *others = (rig.context() for _ in range(LIMITS.max_contexts))
            own = {first, *others}
            for _ in range(20):
                assert rig.cold(Opcode.CONTEXT_DESTROY, context=first).status is Status.OK
                first = rig.context()
                own.add(first)
        assert not ids & own
        ids |= own


def test_context_destroy_frees_memory_programs_and_events(rig: Rig) -> None:
    context = rig.context()
    rig.alloc(context, 5000)
    rig.load(context, "kernel k\nglobal g 64")
    rig.ok(Opcode.EVENT_CREATE, context=context)
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
    usage = rig.usage()
    assert (usage.memory_used_bytes, usage.num_allocations) == (0, 0)
    assert (usage.num_programs, usage.num_contexts) == (0, 0)


def test_context_destroy_cancels_what_runs(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel hold behaviour=hold")["hold"]
    launch = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": function}, context=context)
    assert rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
    assert rig.driver.wait(launch).status is Status.CANCELLED


# ---- memory ----------------------------------------------------------------------------------------


def test_allocations_are_charged_rounded_and_given_back(rig: Rig) -> None:
    context = rig.context()
    address = rig.alloc(context, 1)
    assert address != 0
    assert rig.usage().memory_used_bytes == 4096
    rig.ok(Opcode.FREE, {"address": address}, context=context)
    assert rig.usage().memory_used_bytes == 0


def test_memory_quota_is_enforced_with_the_figures(rig: Rig) -> None:
    context = rig.context()
    rig.alloc(context, LIMITS.memory_bytes - 8192)
    status, text = refused(rig, Opcode.ALLOC, {"size": 8193}, context=context)
    assert status is Status.OUT_OF_MEMORY
    assert text == f"asked 8193 bytes, 8192 of {LIMITS.memory_bytes} bytes free" + may_raise("memory")
    rig.alloc(context, 8192)


@pytest.mark.parametrize("size", [1 << 47, (1 << 64) - 1, (1 << 64) - 4096])
def test_huge_allocations_are_out_of_memory(rig: Rig, size: int) -> None:
    assert refused(rig, Opcode.ALLOC, {"size": size}, context=rig.context())[0] is Status.OUT_OF_MEMORY


def test_an_allocation_of_nothing_is_refused(rig: Rig) -> None:
    assert refused(rig, Opcode.ALLOC, {"size": 0}, context=rig.context())[0] is Status.INVALID_ARGUMENT


def test_free_takes_only_own_whole_allocations_once(rig: Rig) -> None:
    mine, other = rig.context(), rig.context()
    address = rig.alloc(mine, 4096)
    assert refused(rig, Opcode.FREE, {"address": address + 16}, context=mine)[0] is Status.INVALID_ADDRESS
    assert refused(rig, Opcode.FREE, {"address": address}, context=other)[0] is Status.INVALID_ADDRESS
    rig.ok(Opcode.FREE, {"address": address}, context=mine)
    assert refused(rig, Opcode.FREE, {"address": address}, context=mine)[0] is Status.INVALID_ADDRESS


def test_memory_that_is_being_freed_cannot_be_used(rig: Rig) -> None:
    context = rig.context()
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    address = rig.alloc(context, 64)
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context)
    free = rig.driver.submit(Opcode.FREE, {"address": address}, context=context)
    fill = {"dst": address, "size": 8, "unit": 8}
    assert refused(rig, Opcode.FILL, fill, context=context)[0] is Status.INVALID_ADDRESS
    assert rig.usage().num_allocations == 1
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=1)
    assert rig.driver.wait(free).status is Status.OK
    assert rig.usage().num_allocations == 0


def test_driver_of_another_wire_format_gets_no_context(rig: Rig) -> None:
    status, text = refused(rig, Opcode.CONTEXT_CREATE, {"fingerprint": 0x1234})
    assert status is Status.UNSUPPORTED
    assert "0000000000001234" in text
    assert f"{schema.FINGERPRINT:016x}" in text


def test_driver_of_another_byte_order_gets_no_context(rig: Rig) -> None:
    swapped = int.from_bytes(schema.FINGERPRINT.to_bytes(8, "little"), "big")
    status, text = refused(rig, Opcode.CONTEXT_CREATE, {"fingerprint": swapped})
    assert status is Status.UNSUPPORTED
    assert text.startswith(f"driver and device differ in byte order: the driver has fingerprint {swapped:016x}")


def test_free_waits_for_earlier_work_of_every_stream(rig: Rig) -> None:
    context = rig.context()
    ids = rig.load(context, "kernel hold behaviour=hold\nkernel release behaviour=release")
    address = rig.alloc(context, 64)
    held = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": ids["hold"]}, context=context, stream=3)
    frees = [
        rig.driver.submit(Opcode.FREE, {"address": at}, context=context) for at in (address, rig.alloc(context, 8))
    ]
    assert rig.usage().num_allocations == 2
    rig.ok(Opcode.NOP, context=context)
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": ids["release"]}, context=context, stream=1)
    assert rig.driver.wait(held).status is Status.OK
    assert [rig.driver.wait(free).status for free in frees] == [Status.OK, Status.OK]
    assert rig.usage().num_allocations == 0


def test_free_does_not_wait_for_other_contexts(rig: Rig) -> None:
    busy, idle = rig.context(), rig.context()
    hold = rig.load(busy, "kernel hold behaviour=hold")["hold"]
    address = rig.alloc(idle, 64)
    rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": hold}, context=busy)
    rig.ok(Opcode.FREE, {"address": address}, context=idle)
    assert rig.usage().num_allocations == 0


def test_copies_return_the_requested_bytes(rig: Rig) -> None:
    context = rig.context()
    address = rig.alloc(context, 4096)
    body = {"dst": address + 96, "size": 4000}
    assert rig.ok(Opcode.COPY_IN, body, payload_in=bytes(4000), context=context).used_len == 48
    reply = rig.ok(Opcode.COPY_OUT, {"src": address, "size": 4096}, writable_len=5000, context=context)
    assert (len(reply.payload), reply.used_len) == (4096, 48 + 4096)
    rig.ok(Opcode.COPY_DEVICE, {"src": address, "dst": address + 16, "size": 4080}, context=context)


@pytest.mark.parametrize("opcode", [Opcode.COPY_IN, Opcode.COPY_OUT, Opcode.COPY_DEVICE])
def test_empty_copies_touch_nothing(rig: Rig, opcode: Opcode) -> None:
    rig.ok(opcode, {}, context=rig.context())


RANGES = [(0, 4097), (4096, 1), (-1, 8), (1, 4096), (1 << 40, 1), (0, 1 << 63), (4095, (1 << 64) - 4095)]


@pytest.mark.parametrize(("offset", "size"), RANGES)
def test_ranges_outside_an_allocation_are_refused(rig: Rig, offset: int, size: int) -> None:
    context = rig.context()
    address = rig.alloc(context, 4096)
    good = rig.alloc(context, 4096)
    bad = {"dst": address + offset, "src": good, "size": size}
    assert refused(rig, Opcode.COPY_DEVICE, bad, context=context)[0] is Status.INVALID_ADDRESS
    fill = {"dst": address + offset, "size": size, "unit": 1}
    assert refused(rig, Opcode.FILL, fill, context=context)[0] is Status.INVALID_ADDRESS


def test_another_contexts_memory_is_refused(rig: Rig) -> None:
    mine, other = rig.context(), rig.context()
    address = rig.alloc(other, 4096)
    copy_in = {"dst": address, "size": 8}
    copy_out = {"src": address, "size": 8}
    assert refused(rig, Opcode.COPY_IN, copy_in, payload_in=bytes(8), context=mine)[0] is Status.INVALID_ADDRESS
    assert refused(rig, Opcode.COPY_OUT, copy_out, context=mine)[0] is Status.INVALID_ADDRESS


def test_copy_payloads_must_match_the_size(rig: Rig) -> None:
    context = rig.context()
    address = rig.alloc(context, 4096)
    body = {"dst": address, "size": 100}
    assert refused(rig, Opcode.COPY_IN, body, payload_in=bytes(99), context=context)[0] is Status.BAD_REQUEST
    assert refused(rig, Opcode.COPY_IN, body, payload_in=bytes(101), context=context)[0] is Status.BAD_REQUEST
    body = {"src": address, "size": 101}
    assert refused(rig, Opcode.COPY_OUT, body, writable_len=100, context=context)[0] is Status.BAD_REQUEST


def test_the_unused_address_of_a_copy_must_be_zero(rig: Rig) -> None:
    context = rig.context()
    both = {"dst": 1, "src": 1}
    assert refused(rig, Opcode.COPY_IN, both, context=context)[0] is Status.BAD_REQUEST
    assert refused(rig, Opcode.COPY_OUT, both, context=context)[0] is Status.BAD_REQUEST


@pytest.mark.parametrize("unit", [1, 2, 4, 8])
def test_fill_takes_units_of_1_2_4_and_8(rig: Rig, unit: int) -> None:
    context = rig.context()
    rig.ok(Opcode.FILL, {"dst": rig.alloc(context, 64), "size": 64, "unit": unit}, context=context)


@pytest.mark.parametrize(("unit", "offset", "size"), [(0, 0, 8), (3, 0, 9), (16, 0, 16), (4, 0, 6), (4, 2, 8)])
def test_fill_refuses_broken_units(rig: Rig, unit: int, offset: int, size: int) -> None:
    context = rig.context()
    body = {"dst": rig.alloc(context, 64) + offset, "size": size, "unit": unit}
    assert refused(rig, Opcode.FILL, body, context=context)[0] is Status.INVALID_ARGUMENT


def test_variables_of_a_program_can_be_copied_to_but_not_freed(rig: Rig) -> None:
    context = rig.context()
    rig.load(context, "global table 256")
    reply = rig.cold(Opcode.GLOBAL_LOOKUP, {"name_len": 5}, b"table", context=context, writable_len=64)
    rig.ok(Opcode.COPY_IN, {"dst": reply.value, "size": 256}, payload_in=bytes(256), context=context)
    assert refused(rig, Opcode.FREE, {"address": reply.value}, context=context)[0] is Status.INVALID_ADDRESS


# ---- launches --------------------------------------------------------------------------------------


def test_unknown_flags_of_a_launch_are_refused(rig: Rig) -> None:
    context = rig.context()
    body = LAUNCH | {"function": rig.load(context, "kernel k")["k"]}
    rig.ok(Opcode.LAUNCH, body | {"flags": int(LaunchFlag.COOPERATIVE)}, context=context)
    for flags in (2, 3, 1 << 31):
        status, said = refused(rig, Opcode.LAUNCH, body | {"flags": flags}, context=context)
        assert (status, said) == (Status.BAD_REQUEST, f"flags are {flags:#x}; allowed: 0, 0x1")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("which", ["grid", "block"])
def test_launch_dimensions_must_not_be_zero(rig: Rig, which: str, axis: int) -> None:
    context = rig.context()
    body = LAUNCH | {"function": rig.load(context, "kernel k")["k"]}
    body[which] = [0 if i == axis else 1 for i in range(3)]
    assert refused(rig, Opcode.LAUNCH, body, context=context)[0] is Status.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ([1 << 31, 1, 1], [1, 1, 1]),
        ([1, 65536, 1], [1, 1, 1]),
        ([1, 1, 65536], [1, 1, 1]),
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [32, 32, 2]),
        ([1, 1, 1], [1 << 31, 1 << 31, 4]),
    ],
)
def test_launch_geometry_is_bounded(rig: Rig, grid: list[int], block: list[int]) -> None:
    context = rig.context()
    body = {"function": rig.load(context, "kernel k")["k"], "grid": grid, "block": block}
    assert refused(rig, Opcode.LAUNCH, body, context=context)[0] is Status.INVALID_ARGUMENT


def test_the_largest_launch_is_taken(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k")["k"]
    grid = [(1 << 31) - 1, 65535, 65535]
    rig.ok(Opcode.LAUNCH, {"function": function, "grid": grid, "block": [1024, 1, 1]}, context=context)


def test_launch_bounds_of_a_function_are_enforced(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k max_threads=64")["k"]
    rig.ok(Opcode.LAUNCH, {"function": function, "grid": [1, 1, 1], "block": [64, 1, 1]}, context=context)
    body = {"function": function, "grid": [1, 1, 1], "block": [65, 1, 1]}
    status, text = refused(rig, Opcode.LAUNCH, body, context=context)
    assert (status, "allowed for k: 1..64 threads" in text) == (Status.INVALID_ARGUMENT, True)


def test_shared_memory_is_bounded(rig: Rig) -> None:
    context = rig.context()
    body = LAUNCH | {"function": rig.load(context, "kernel k shared=1024")["k"]}
    rig.ok(Opcode.LAUNCH, body | {"shared_bytes": 95 << 10}, context=context)
    for size in ((95 << 10) + 1, (1 << 32) - 1):
        too_much = body | {"shared_bytes": size}
        assert refused(rig, Opcode.LAUNCH, too_much, context=context)[0] is Status.INVALID_ARGUMENT


def test_parameters_must_be_as_long_as_the_functions(rig: Rig) -> None:
    context = rig.context()
    body = LAUNCH | {"function": rig.load(context, "kernel k 8 4")["k"]}
    rig.ok(Opcode.LAUNCH, body | {"param_len": 12}, bytes(12), context=context)
    for size in (0, 11, 13, 4096, 5000):
        reply = refused(rig, Opcode.LAUNCH, body | {"param_len": size}, trailing=bytes(size), context=context)
        assert reply[0] is Status.INVALID_ARGUMENT


def test_parameters_must_be_there(rig: Rig) -> None:
    context = rig.context()
    body = LAUNCH | {"function": rig.load(context, "kernel k 8 4")["k"], "param_len": 12}
    assert refused(rig, Opcode.LAUNCH, body, trailing=bytes(11), context=context)[0] is Status.BAD_REQUEST


def test_functions_belong_to_their_context(rig: Rig) -> None:
    mine, other = rig.context(), rig.context()
    body = LAUNCH | {"function": rig.load(other, "kernel k")["k"]}
    assert refused(rig, Opcode.LAUNCH, body, context=mine)[0] is Status.NOT_FOUND
    assert refused(rig, Opcode.LAUNCH, LAUNCH | {"function": 0}, context=mine)[0] is Status.NOT_FOUND


def test_a_failed_launch_has_an_error_text(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k behaviour=assert")["k"]
    status, text = refused(rig, Opcode.LAUNCH, LAUNCH | {"function": function}, context=context)
    assert (status, text) == (Status.ASSERT, "the null kernel's assertion failed")


def test_an_error_text_is_cut_to_the_available_room(rig: Rig) -> None:
    reply = rig.driver.request(0x77, writable_len=6)
    assert (reply.status, reply.payload, reply.used_len) == (Status.UNSUPPORTED, b"opcode", 54)
    reply = rig.driver.request(0x77)
    assert (reply.status, reply.payload, reply.used_len) == (Status.UNSUPPORTED, b"", 48)


def test_long_launches_report_their_times(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k behaviour=later")["k"]
    reply = rig.ok(Opcode.LAUNCH, LAUNCH | {"function": function}, context=context)
    assert reply.exec_ns > 0
    assert rig.usage().busy_ns == reply.exec_ns


# ---- events ----------------------------------------------------------------------------------------


def test_events_are_recorded_waited_for_and_destroyed(rig: Rig) -> None:
    context = rig.context()
    event = rig.ok(Opcode.EVENT_CREATE, context=context).value
    for opcode in (Opcode.EVENT_RECORD, Opcode.EVENT_WAIT, Opcode.EVENT_DESTROY):
        rig.ok(opcode, {"event": event}, context=context)
    for opcode in (Opcode.EVENT_RECORD, Opcode.EVENT_WAIT, Opcode.EVENT_DESTROY):
        assert refused(rig, opcode, {"event": event}, context=context)[0] is Status.NOT_FOUND


def test_events_belong_to_their_context(rig: Rig) -> None:
    event = rig.ok(Opcode.EVENT_CREATE, context=rig.context()).value
    assert refused(rig, Opcode.EVENT_WAIT, {"event": event}, context=rig.context())[0] is Status.NOT_FOUND


def test_event_ids_are_not_used_again_at_once(rig: Rig) -> None:
    context = rig.context()
    first = rig.ok(Opcode.EVENT_CREATE, context=context).value
    rig.ok(Opcode.EVENT_DESTROY, {"event": first}, context=context)
    assert rig.ok(Opcode.EVENT_CREATE, context=context).value != first


# ---- programs --------------------------------------------------------------------------------------


def test_the_compilers_log_reaches_the_guest(rig: Rig) -> None:
    pending = rig.driver.submit(
        Opcode.PROGRAM_LOAD, {"kind": 1, "source_len": 1}, b"x", context=rig.context(), writable_len=20
    )
    rig.serve_cold()
    rig.answer_compile(ok=False, log="error: 'x' is not a program")
    reply = rig.driver.wait(pending)
    assert (reply.status, reply.text, reply.aux) == (Status.COMPILE_FAILED, "error: 'x' is not a ", 27)


def test_an_image_that_cannot_be_loaded_is_a_failed_compile(rig: Rig) -> None:
    pending = rig.driver.submit(
        Opcode.PROGRAM_LOAD, {"kind": 1, "source_len": 5}, b"hello", context=rig.context(), writable_len=200
    )
    rig.serve_cold()
    rig.answer_compile()
    reply = rig.driver.wait(pending)
    assert reply.status is Status.COMPILE_FAILED
    assert "line 1" in reply.text


def test_options_reach_the_compiler(rig: Rig) -> None:
    options = b"-O1\0-DX=2\0"
    body = {"kind": 1, "options_len": len(options), "source_len": 0}
    pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, options, context=rig.context(), writable_len=200)
    rig.serve_cold()
    assert rig.compiles[0][0].options == ("-O1", "-DX=2")
    rig.answer_compile()
    rig.driver.wait(pending)


@pytest.mark.parametrize(
    ("body", "trailing", "status"),
    [
        ({"kind": 1, "source_len": 2}, b"x", Status.BAD_REQUEST),
        ({"kind": 1, "source_len": 1}, b"xx", Status.BAD_REQUEST),
        ({"kind": 1, "options_len": 2}, b"-g", Status.BAD_REQUEST),
        ({"kind": 1, "options_len": 3}, b"-\xff\0", Status.BAD_REQUEST),
        ({"kind": 1, "options_len": 257}, bytes(257), Status.INVALID_ARGUMENT),
        ({"kind": 1, "options_len": 16385}, b"", Status.INVALID_ARGUMENT),
        ({"kind": 1, "source_len": (16 << 20) + 1}, b"", Status.INVALID_ARGUMENT),
        ({"kind": 1, "source_len": (1 << 64) - 1}, b"", Status.INVALID_ARGUMENT),
        ({"kind": 99}, b"", Status.UNSUPPORTED),
    ],
)
def test_broken_program_loads_are_refused(rig: Rig, body: dict[str, int], trailing: bytes, status: Status) -> None:
    reply = rig.cold(Opcode.PROGRAM_LOAD, body, trailing, context=rig.context(), writable_len=200)
    assert (reply.status, rig.compiles) == (status, [])


def test_functions_are_looked_up_by_both_names(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k p8 4 shared=16 max_threads=7")["k"]
    for name in (b"k", b"_null_k"):
        reply = rig.cold(Opcode.FUNCTION_LOOKUP, {"name_len": len(name)}, name, context=context, writable_len=100)
        entry = schema.FUNCTION_ENTRY.construct.parse(reply.payload)
        assert (reply.value, entry.id, entry.num_params, entry.param_bytes) == (function, function, 2, 12)
        assert (entry.shared_bytes, entry.max_threads) == (16, 7)
        params = struct.unpack("<8I", reply.payload[schema.FUNCTION_ENTRY.size_bytes :])
        assert params == (0, 8, ParamKind.POINTER, 0, 8, 4, ParamKind.UNKNOWN, 0)


def test_an_unknown_name_is_answered_with_the_known_ones(rig: Rig) -> None:
    context = rig.context()
    rig.load(context, "kernel one\nkernel two")
    reply = rig.cold(Opcode.FUNCTION_LOOKUP, {"name_len": 5}, b"three", context=context, writable_len=100)
    assert (reply.status, reply.text) == (Status.NOT_FOUND, "no function 'three'; there are: one, two")


@pytest.mark.parametrize("opcode", [Opcode.FUNCTION_LOOKUP, Opcode.GLOBAL_LOOKUP])
def test_lookups_in_an_unknown_program_fail(rig: Rig, opcode: Opcode) -> None:
    reply = rig.cold(opcode, {"program": 99, "name_len": 1}, b"k", context=rig.context(), writable_len=100)
    assert reply.status is Status.NOT_FOUND


@pytest.mark.parametrize(("name_len", "status"), [(2, Status.BAD_REQUEST), (1025, Status.INVALID_ARGUMENT)])
def test_names_must_not_be_empty_or_too_long(rig: Rig, name_len: int, status: Status) -> None:
    reply = rig.cold(Opcode.FUNCTION_LOOKUP, {"name_len": name_len}, b"k", context=rig.context(), writable_len=100)
    assert reply.status is status


def test_an_unloaded_program_is_gone(rig: Rig) -> None:
    context = rig.context()
    function = rig.load(context, "kernel k")["k"]
    program = rig.programs[-1]
    assert rig.cold(Opcode.PROGRAM_UNLOAD, {"program": program}, context=context).status is Status.OK
    assert refused(rig, Opcode.LAUNCH, LAUNCH | {"function": function}, context=context)[0] is Status.NOT_FOUND
    assert refused(rig, Opcode.PROGRAM_UNLOAD, {"program": program}, context=context)[0] is Status.NOT_FOUND


def test_memory_of_a_loaded_program_counts_against_the_quota(rig: Rig) -> None:
    context = rig.context()
    rig.load(context, "bytes 1000000")
    body = {"size": 1 << 16}
    assert rig.driver.request(Opcode.ALLOC, body, context=context, writable_len=200).status is Status.OUT_OF_MEMORY
    assert rig.usage().memory_used_bytes == 1000000

    assert rig.cold(Opcode.PROGRAM_UNLOAD, {"program": rig.programs[0]}, context=context).status is Status.OK
    assert rig.usage().memory_used_bytes == 0
    rig.alloc(context, 1 << 16)


class Busy(NullEngine):
    """Engine in which something runs."""

    busy = True

    def pause(self) -> bool:
        return not self.busy


def test_few_images_wait_for_a_busy_engine() -> None:
    """Each may take 64 MiB."""
    engine = Busy(1)
    with plane_rig(engine=engine) as rig:

        def compiling(count: int) -> bool:
            rig.server.serve()
            return len(rig.compiles) == count

        context = rig.context()
        body = {"kind": 1, "source_len": 8}
        loads = [
            rig.driver.submit(Opcode.PROGRAM_LOAD, body, f"kernel {name}".encode(), context=context, writable_len=500)
            for name in "abcdef"
        ]
        until(lambda: compiling(NUM_SOURCES) and rig.plane.usage().in_flight == len(loads))
        for request, source in rig.compiles:
            fd = memfd.sealed("image", source)
            rig.server.on_program(Program(0, request.request, True, "", 0, False), (fd,))
        assert compiling(NUM_SOURCES)
        engine.busy = False
        until(lambda: compiling(len(loads)))
        for request, source in rig.compiles[NUM_SOURCES:]:
            fd = memfd.sealed("image", source)
            rig.server.on_program(Program(0, request.request, True, "", 0, False), (fd,))
        assert {rig.driver.wait(load).status for load in loads} == {Status.OK}


def test_a_programs_charge_is_raised_within_the_quota(rig: Rig) -> None:
    program = rig.plane.add_program(1, 1000)
    rig.plane.charge_program(program, 500)
    assert rig.usage().memory_used_bytes == 1000
    rig.plane.charge_program(program, LIMITS.memory_bytes)
    assert rig.usage().memory_used_bytes == LIMITS.memory_bytes
    with pytest.raises(DataPlaneError) as caught:
        rig.plane.charge_program(program, LIMITS.memory_bytes + 1)
    assert caught.value.number == errno.EDQUOT
    rig.plane.remove_program(program)
    assert rig.usage().memory_used_bytes == 0
    with pytest.raises(DataPlaneError, match="No such file"):
        rig.plane.charge_program(program, 1)


@pytest.mark.parametrize("size", [(1 << 20) + 1, (1 << 64) - 1])
def test_a_program_that_does_not_fit_the_quota_is_refused_with_the_figures(rig: Rig, size: int) -> None:
    context = rig.context()
    source = f"bytes {size}".encode()
    body = {"kind": 1, "source_len": len(source)}
    pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, source, context=context, writable_len=500)
    rig.serve_cold()
    rig.answer_compile()
    reply = rig.driver.wait(pending)

    assert reply.status is Status.OUT_OF_MEMORY
    assert str(size) in reply.text
    assert (rig.usage().num_programs, rig.usage().memory_used_bytes) == (0, 0)


def test_unload_waits_for_launches_of_the_program(rig: Rig) -> None:
    context = rig.context()
    held = rig.load(context, "kernel hold behaviour=hold")["hold"]
    program = rig.programs[-1]
    release = rig.load(context, "kernel release behaviour=release")["release"]
    launch = rig.driver.submit(Opcode.LAUNCH, LAUNCH | {"function": held}, context=context)
    unload = rig.driver.submit(Opcode.PROGRAM_UNLOAD, {"program": program}, context=context)
    rig.ok(Opcode.LAUNCH, LAUNCH | {"function": release}, context=context, stream=1)
    assert rig.driver.wait(launch).status is Status.OK
    rig.serve_cold()
    assert rig.driver.wait(unload).status is Status.OK


# ---- quotas ----------------------------------------------------------------------------------------


def test_requests_beyond_the_queue_depth_are_refused_on_every_queue() -> None:
    with plane_rig(replace(LIMITS, queue_depth=3)) as rig:
        context = rig.context()
        launch = LAUNCH | {"function": rig.load(context, "kernel hold behaviour=hold")["hold"]}
        held = [rig.driver.submit(Opcode.LAUNCH, launch, context=context) for _ in range(2)]
        rig.ok(Opcode.NOP, queue=1)
        held.append(rig.driver.submit(Opcode.LAUNCH, launch, context=context))
        for queue in (0, 1):
            status, text = refused(rig, Opcode.NOP, queue=queue)
            assert (status, text) == (
                Status.RESOURCES_EXHAUSTED,
                "3 requests are in flight; this VM's quota is 3" + may_raise("queue-depth"),
            )
        assert [launch.reply for launch in held] == [None, None, None]


@pytest.mark.parametrize(
    ("params", "kinds", "param_bytes"),
    [
        (((0, 8),), (), 4),
        (((8, 4),), (), 8),
        ((((1 << 32) - 1, 1),), (), 8),
        ((), (), 32765),
        (((0, 4),), (ParamKind.OTHER + 1,), 4),
        (((0, 4),), (ParamKind.POINTER,), 4),
    ],
)
def test_functions_with_invalid_parameters_are_not_registered(
    rig: Rig, params: tuple[tuple[int, int], ...], kinds: tuple[int, ...], param_bytes: int
) -> None:
    kernel = make_kernel("odd", params, param_bytes, 1, param_kinds=kinds)
    program = rig.plane.add_program(1)
    with pytest.raises(DataPlaneError, match="function odd: Invalid argument"):
        rig.plane.add_function(program, kernel, "odd", "odd")


def test_long_fills_are_noted_as_they_move_on() -> None:
    """The daemon would take a worker for idle in which a request neither begins nor ends for long."""
    limits = replace(LIMITS, memory_bytes=8 * MIB)
    engine = CpuEngine.open({}, 1, limits.memory_bytes, limits.deadline_ns)
    engine.start()
    with InflightMemory() as memory, plane_rig(limits, engine=engine, inflight_fd=memory.fd) as rig:
        context = rig.context()
        before = memory.pieces()
        rig.ok(Opcode.FILL, {"dst": rig.alloc(context, 8 * MIB), "size": 8 * MIB, "unit": 1}, context=context)
        assert memory.pieces() >= before + 8
