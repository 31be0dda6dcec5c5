"""Workers that die over requests: the next one answers each exactly once."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator

import pytest
from msgspec import structs

from tests.fakes.driver import FakeDriver, Pending
from tests.protocol.worker_rig import SETUP, TIMEOUT_S, Parts, WorkerRig, needs_walls, shared_parts, worker_rig
from virtio_proto.schema import Opcode, Status

EXIT_FATAL = 86


@pytest.fixture
def parts() -> Iterator[Parts]:
    with shared_parts() as made:
        yield made


def nothing_more(driver: FakeDriver) -> bool:
    """True if no queue has a completion or a pending request."""
    return all(queue.poll() == [] and queue.num_pending == 0 for queue in driver.queues)


def hold(rig: WorkerRig, count: int = 1) -> list[Pending]:
    """Starts launches that never end; returns when they are in flight."""
    context = rig.context()
    function = rig.load(context, "kernel hold behaviour=hold")["hold"]
    held = [rig.launch(context, function) for _ in range(count)]
    rig.ok(Opcode.NOP)
    return held


def test_requests_of_a_killed_worker_end_as_device_lost_once(parts: Parts) -> None:
    driver, memory = parts[1], parts[2]
    with worker_rig(parts=parts) as rig:
        rig.start()
        held = hold(rig, 3)
        rig.process.send_signal(signal.SIGKILL)
        rig.process.wait(TIMEOUT_S)
        assert set(memory.queue(0).heads) == {request.head for request in held}
    late = driver.submit(Opcode.NOP)
    with worker_rig(parts=parts, setup=structs.replace(SETUP, generation=1)) as rig:
        assert rig.recover().ok
        assert [driver.wait(request).status for request in held] == [Status.DEVICE_LOST] * 3
        assert driver.wait(late).status is Status.OK
        assert nothing_more(driver)
        rig.context()


def test_contexts_of_a_dead_worker_are_gone(parts: Parts) -> None:
    with worker_rig(parts=parts) as rig:
        rig.start()
        context = rig.context()
        rig.process.kill()
        rig.process.wait(TIMEOUT_S)
    with worker_rig(parts=parts) as rig:
        rig.recover()
        assert rig.driver.request(Opcode.NOP, context=context).status is Status.NO_CONTEXT


def test_the_request_at_fault_gets_the_fault_and_the_others_are_lost(parts: Parts) -> None:
    driver = parts[1]
    with worker_rig(parts=parts) as rig:
        rig.start()
        held = hold(rig)
        context = rig.context()
        culprit = rig.launch(context, rig.load(context, "kernel bad behaviour=fault")["bad"])
        assert rig.process.wait(TIMEOUT_S) == EXIT_FATAL
    with worker_rig(parts=parts) as rig:
        rig.recover()
        reply = driver.wait(culprit)
        assert (reply.status, reply.text, reply.detail) == (Status.FAULT, "the null kernel faulted", 11)
        assert driver.wait(held[0]).status is Status.DEVICE_LOST
        assert nothing_more(driver)


def test_a_fault_on_one_ring_loses_the_requests_of_the_other(parts: Parts) -> None:
    driver = parts[1]
    with worker_rig(parts=parts) as rig:
        rig.start(0)
        rig.start(1)
        held = hold(rig)
        context = rig.context()
        culprit = rig.launch(context, rig.load(context, "kernel bad behaviour=fault")["bad"], queue=1)
        assert rig.process.wait(TIMEOUT_S) == EXIT_FATAL
    with worker_rig(parts=parts) as rig:
        rig.recover(0)
        rig.recover(1)
        assert driver.wait(held[0]).status is Status.DEVICE_LOST
        assert driver.wait(culprit, queue=1).status is Status.FAULT
        assert nothing_more(driver)


def test_a_launch_past_its_deadline_times_out(parts: Parts) -> None:
    driver = parts[1]
    with worker_rig(parts=parts, setup=structs.replace(SETUP, deadline_ns=20_000_000)) as rig:
        rig.start()
        context = rig.context()
        launch = rig.launch(context, rig.load(context, "kernel endless behaviour=hold")["endless"])
        assert rig.process.wait(TIMEOUT_S) == EXIT_FATAL
    with worker_rig(parts=parts) as rig:
        rig.recover()
        reply = driver.wait(launch)
        expected = "kernel endless ran longer than 20 ms; held in block (0,0,0)"
        assert (reply.status, reply.text) == (Status.TIMEOUT, expected)


def test_a_worker_killed_under_load_loses_no_request(parts: Parts) -> None:
    """Whenever the worker dies, every request comes back once."""
    driver = parts[1]
    for round_ in range(5):
        with worker_rig(parts=parts) as rig:
            for index in (0, 1):
                rig.start(index) if round_ == 0 else rig.recover(index)
            requests = [(driver.submit(Opcode.NOP, queue=index), index) for _ in range(20) for index in (0, 1)]
            rig.process.kill()
            rig.process.wait(TIMEOUT_S)
        with worker_rig(parts=parts) as rig:
            for index in (0, 1):
                rig.recover(index)
            answers = {driver.wait(request, queue=index).status for request, index in requests}
            assert answers <= {Status.OK, Status.DEVICE_LOST}
            assert nothing_more(driver)


def test_a_request_waiting_for_its_compiler_is_lost_with_the_worker(parts: Parts) -> None:
    driver = parts[1]
    with worker_rig(parts=parts) as rig:
        rig.start()
        load = driver.submit(Opcode.PROGRAM_LOAD, {"kind": 1, "source_len": 1}, b"x", context=rig.context())
        rig.ok(Opcode.NOP)
        rig.process.kill()
        rig.process.wait(TIMEOUT_S)
    with worker_rig(parts=parts) as rig:
        rig.recover()
        assert driver.wait(load).status is Status.DEVICE_LOST


@needs_walls
def test_a_fault_in_a_strict_sandbox_is_reported(parts: Parts) -> None:
    with worker_rig("strict", parts=parts) as rig:
        rig.start()
        context = rig.context()
        culprit = rig.launch(context, rig.load(context, "kernel bad behaviour=fault")["bad"])
        assert rig.process.wait(TIMEOUT_S) == EXIT_FATAL
    with worker_rig(parts=parts) as rig:
        rig.recover()
        assert parts[1].wait(culprit).text == "the null kernel faulted"


def test_driver_gets_a_call_even_if_nothing_was_in_flight() -> None:
    """The worker may have died between returning a chain and the call, so the next one calls to wake the driver."""
    with worker_rig() as rig:
        rig.start()
        rig.ok(Opcode.NOP)
        rig.stop()
        call_fd = rig.driver.queues[0].call_fd
        if select.select([call_fd], [], [], 0)[0]:
            os.eventfd_read(call_fd)
        assert rig.recover().ok
        assert select.select([call_fd], [], [], 0)[0]
