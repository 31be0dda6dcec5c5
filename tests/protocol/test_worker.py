"""A real worker process: its side of the conversation with the daemon."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.protocol.worker_rig import (
    SETUP,
    TIMEOUT_S,
    WorkerRig,
    needs_walls,
    shared_parts,
    survive_a_region_that_shrinks,
    worker_rig,
)
from tests.waiting import sleeps_for_good, threads_of, until
from vhost_backend.worker_protocol import protocol
from vhost_backend.worker_protocol.protocol import (
    Ack,
    EngineSetup,
    MemTable,
    Program,
    Quota,
    Shutdown,
    Stats,
    VringBroken,
    VringCall,
    VringEnable,
    VringKick,
)
from virtio_proto import schema
from virtio_proto.schema import DeviceFeature, Opcode, ParamKind, Status

RSS_LIMIT_MIB = 40


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    with worker_rig() as made:
        yield made


@pytest.fixture
def bare() -> Iterator[WorkerRig]:
    """A worker that has not been set up."""
    with shared_parts() as parts:
        made = WorkerRig(*parts, "off")
        yield made
        made.close()


# ---- life ------------------------------------------------------------------------------------------


def test_ready_describes_the_engine(bare: WorkerRig) -> None:
    ready = bare.set_up(structs.replace(SETUP, quota=Quota(3, 1 << 20, 64)))
    assert (ready.engine_name, ready.num_pes, ready.sandbox) == ("null", 3, "off")
    assert ready.features == DeviceFeature.CALL | DeviceFeature.EVENTS | DeviceFeature.TEXTURES | DeviceFeature.GRAPHS


@pytest.mark.parametrize(
    ("engine", "error"),
    [
        (EngineSetup("abacus", {}), "engine 'abacus' is unknown; allowed: null, cpu, cuda"),
        (EngineSetup("null", {"speed": 11}), "the null engine has no options, but got speed"),
    ],
)
def test_a_setup_that_cannot_be_met_is_refused_and_the_worker_ends(
    bare: WorkerRig, engine: EngineSetup, error: str
) -> None:
    bare.send(structs.replace(SETUP, engine=engine), bare.setup_fds())
    assert bare.expect(Ack)[0] == Ack(1, False, error, 0, 0)
    assert bare.process.wait(TIMEOUT_S) == 1


def test_naps_of_all_threads_end_on_time(rig: WorkerRig) -> None:
    """The timer slack is not the kernel's default of 50 us: naps of the data plane are 20 us long."""
    threads = [path.name for path in Path(f"/proc/{rig.process.pid}/task").iterdir()]
    assert len(threads) > 1
    assert {Path(f"/proc/{thread}/timerslack_ns").read_text() for thread in threads} == {"1\n"}


def test_a_file_that_is_no_inflight_memory_is_refused(bare: WorkerRig) -> None:
    with open("/dev/null", "rb") as nothing:
        bare.send(SETUP, bare.setup_fds(nothing.fileno()))
    ack, _ = bare.expect(Ack)
    assert (ack.ok, "in-flight memory is shorter" in ack.error) == (False, True)


def test_the_worker_ends_with_the_connection(rig: WorkerRig) -> None:
    rig.sock.close()
    assert rig.process.wait(TIMEOUT_S) == 0


def test_shutdown_ends_the_worker_even_with_work_in_flight(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    rig.launch(context, rig.load(context, "kernel hold behaviour=hold")["hold"])
    rig.send(Shutdown(9))
    assert rig.process.wait(TIMEOUT_S) == 0


def test_a_second_setup_ends_the_worker_with_a_reason(rig: WorkerRig) -> None:
    rig.send(SETUP, rig.setup_fds())
    log, _ = rig.expect(protocol.Log)
    assert "setup again" in str(log.fields["error"])
    assert rig.process.wait(TIMEOUT_S) == 1


# ---- rings -----------------------------------------------------------------------------------------


def test_requests_are_served_on_every_ring(rig: WorkerRig) -> None:
    for index in (0, 1):
        assert rig.start(index) == Ack(index + 3, True, "", 0, 0)
        rig.ok(Opcode.NOP, queue=index)


def test_a_ring_stops_at_its_base_and_goes_on(rig: WorkerRig) -> None:
    rig.start()
    for _ in range(5):
        rig.ok(Opcode.NOP)
    assert rig.stop() == 5
    rig.start(base=5)
    rig.ok(Opcode.NOP)


def test_a_misplaced_ring_is_refused_with_a_reason(rig: WorkerRig) -> None:
    ack = rig.start(desc_uva=0)
    assert (ack.ok, ack.error) == (False, "vring 0: a part of it lies outside the memory table")
    assert rig.start().ok


def test_a_ring_that_does_not_run_cannot_be_stopped(rig: WorkerRig) -> None:
    ack = rig.post(protocol.VringStop, index=1)
    assert (ack.ok, ack.error) == (False, "vring 1 does not run")


def test_a_ring_beyond_the_last_is_refused(rig: WorkerRig) -> None:
    assert not rig.post(VringEnable, index=2, enabled=True).ok


def test_eventfds_can_be_swapped_and_taken_away(rig: WorkerRig) -> None:
    rig.start()
    queue = rig.driver.queues[0]
    for kind, name in ((VringCall, "call_fd"), (VringKick, "kick_fd")):
        fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        assert rig.post(kind, (fresh,), index=0, has_fd=True).ok
        os.close(getattr(queue, name))
        setattr(queue, name, fresh)
        rig.ok(Opcode.NOP)
    assert rig.post(VringKick, index=0, has_fd=False).ok
    rig.driver.wait(rig.driver.submit(Opcode.NOP, kick=False))


def test_a_region_longer_than_its_file_is_refused(rig: WorkerRig) -> None:
    ack = rig.set_memory(1 << 30)
    assert (ack.ok, "in a file of 1048576 bytes" in ack.error) == (False, True)


def test_a_region_can_be_removed_and_added_again(rig: WorkerRig) -> None:
    rig.start()
    assert rig.post(MemTable, regions=()).ok
    assert rig.set_memory().ok
    rig.ok(Opcode.NOP)


def test_a_broken_ring_is_reported(rig: WorkerRig) -> None:
    rig.start()
    rig.start(1)
    rig.driver.queues[0].raw.avail_idx = 200
    rig.driver.queues[0].kick()
    broken, _ = rig.expect(VringBroken)
    assert (broken.index, os.eventfd_read(rig.err_fd)) == (0, 1)
    rig.ok(Opcode.NOP, queue=1)


def test_a_truncated_region_is_reported_and_survived(rig: WorkerRig) -> None:
    survive_a_region_that_shrinks(rig)


# ---- programs --------------------------------------------------------------------------------------


def test_sources_go_to_the_daemon_and_images_come_back(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    source = b"kernel k p8 4\n"
    body = {"kind": 1, "options_len": 4, "source_len": len(source)}
    pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, b"-O3\0" + source, context=context, writable_len=500)
    request = rig.compile()
    assert (request.context, request.program_kind, request.options) == (context, 1, ("-O3",))
    payload = rig.driver.wait(pending).payload
    table = schema.PROGRAM_TABLE.construct.parse(payload)
    assert (table.num_functions, table.num_params) == (1, 2)
    params = payload[schema.PROGRAM_TABLE.size_bytes + schema.FUNCTION_ENTRY.size_bytes :]
    assert struct.unpack_from("<8I", params) == (0, 8, ParamKind.POINTER, 0, 8, 4, ParamKind.UNKNOWN, 0)


def test_many_programs_compile_at_once(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    body = {"kind": 1, "source_len": 8}
    loads = [
        rig.driver.submit(Opcode.PROGRAM_LOAD, body, b"kernel k", context=context, writable_len=300) for _ in range(12)
    ]
    for _ in loads:
        rig.compile()
    assert [rig.driver.wait(load).status for load in loads] == [Status.OK] * 12


def test_a_failed_compile_reaches_the_guest(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    body = {"kind": 1, "source_len": 1}
    pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, b"x", context=context, writable_len=500)
    request, _ = rig.expect(protocol.Compile)
    rig.send(Program(7, request.request, False, "error: no", 123456, False))
    reply = rig.driver.wait(pending)
    assert (reply.status, reply.text, reply.aux) == (Status.COMPILE_FAILED, "error: no", 123456)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (b"-D" + b"x" * 4095 + b"\0", "an option of 4097 characters"),
        (b"a\0" * 257, "257 options"),
    ],
)
def test_options_that_no_message_can_hold_are_refused(rig: WorkerRig, options: bytes, words: str) -> None:
    """Such options end no worker, neither by its own error nor by the daemon."""
    rig.start()
    body = {"kind": 1, "options_len": len(options), "source_len": 1}
    reply = rig.driver.request(Opcode.PROGRAM_LOAD, body, options + b"x", context=rig.context(), writable_len=500)
    assert reply.status is Status.INVALID_ARGUMENT
    assert words in reply.text
    rig.load(rig.context(), "kernel k")


def test_an_unexpected_answer_is_ignored(rig: WorkerRig) -> None:
    rig.start()
    rig.send(Program(7, 999, False, "", 0, False))
    rig.ok(Opcode.NOP)


# ---- figures ---------------------------------------------------------------------------------------


def test_stats_count_requests_and_memory(rig: WorkerRig) -> None:
    rig.start()
    context = rig.context()
    rig.ok(Opcode.ALLOC, {"size": 1}, context=context)
    stats, _ = rig.expect(Stats)
    assert (stats.memory_used_bytes, stats.num_contexts, stats.num_allocations) == (4096, 1, 1)
    assert stats.requests_done == 2


def test_an_idle_worker_uses_no_cpu_and_little_memory(rig: WorkerRig) -> None:
    """After sending its figures, every thread of the worker waits without a timeout."""
    rig.start()
    rig.ok(Opcode.NOP)
    rig.expect(Stats)
    until(lambda: all(map(sleeps_for_good, threads_of(rig.process.pid))))
    rss = next(line for line in Path(f"/proc/{rig.process.pid}/status").read_text().splitlines() if "VmRSS" in line)
    assert int(rss.split()[1]) < RSS_LIMIT_MIB << 10 or "LD_PRELOAD" in os.environ


@needs_walls
def test_a_strict_sandbox_serves_requests() -> None:
    with worker_rig("strict") as rig:
        rig.start()
        context = rig.context()
        ids = rig.load(context, "kernel later behaviour=later")
        assert rig.driver.wait(rig.launch(context, ids["later"])).status is Status.OK
        rig.process.send_signal(signal.SIGTERM)
        assert rig.process.wait(TIMEOUT_S) != 0


def test_another_first_message_than_setup_ends_the_worker(bare: WorkerRig) -> None:
    bare.send(Shutdown(1))
    assert bare.process.wait(TIMEOUT_S) == 1
