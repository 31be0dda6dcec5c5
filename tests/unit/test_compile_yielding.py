"""Long compilations yield to VMs that wait, once; nobody waits for ever.

The order of runs is that of a compiler that runs until the test lets it end, and of slices that end at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.waiting import turns_until
from vhost_backend.compiler.cache import DiskCache
from vhost_backend.compiler.job import CompileJob, Target
from vhost_backend.compiler.queue import FairSlots, Ticket
from vhost_backend.compiler.run import CompileLimits, CompileOutcome
from vhost_backend.compiler.service import CompileResult, CompileService, ServicePolicy
from vhost_backend.log import get_logger
from vhost_backend.quarters import Quarters
from vhost_backend.sandbox import memfd
from vhost_backend.sandbox.terms import SandboxMode
from virtio_proto.schema import ProgramKind

# The queue ----------------------------------------------------------------------------------------


class Clock:
    """Time that passes by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def fair(max_running: int, max_waiting_per_vm: int = 10) -> FairSlots:
    """Slots with a clock of their own."""
    return FairSlots(max_running, max_waiting_per_vm, Clock())


def queued(slots: FairSlots, vm: str, *, is_long: bool = False) -> Ticket:
    """A ticket of `vm`, which has a slot if one is free."""
    ticket = Ticket(is_long=is_long)
    slots.enqueue(vm, ticket)
    return ticket


def on_a_loop(test: Callable[[], None]) -> None:
    """Runs `test` where futures can be made."""

    async def run() -> None:
        test()

    asyncio.run(run())


def test_run_is_stopped_for_a_vm_that_has_nothing_running_once_its_slice_has_ended() -> None:
    def test() -> None:
        slots = fair(2)
        first, second, waiting = (queued(slots, vm) for vm in ("a", "b", "c"))
        assert not first.stopped.done()
        slots.end_slice(first)
        assert (first.stopped.done(), second.stopped.done()) == (True, False)
        slots.release(first)
        assert waiting.vm == "c"

    on_a_loop(test)


def test_run_beyond_its_slice_is_stopped_when_a_vm_comes() -> None:
    def test() -> None:
        slots = fair(2)
        first, second = queued(slots, "a"), queued(slots, "b")
        slots.end_slice(first)
        slots.end_slice(second)
        assert not first.stopped.done()
        queued(slots, "c")
        assert (first.stopped.done(), second.stopped.done()) == (True, False)

    on_a_loop(test)


def test_no_run_is_stopped_for_a_vm_that_has_one_running() -> None:
    def test() -> None:
        slots = fair(2)
        first, second = queued(slots, "a"), queued(slots, "b")
        slots.end_slice(first)
        slots.end_slice(second)
        queued(slots, "a")
        assert not first.stopped.done()
        assert not second.stopped.done()

    on_a_loop(test)


def test_no_run_is_stopped_for_a_vm_that_has_used_more() -> None:
    def test() -> None:
        slots = fair(2)
        first, second = queued(slots, "a"), queued(slots, "b")
        waiting = queued(slots, "c")
        slots.end_slice(first)
        slots.release(first)
        assert waiting.vm == "c"
        queued(slots, "a")
        slots.end_slice(waiting)
        assert not waiting.stopped.done()
        slots.end_slice(second)
        assert second.stopped.done()

    on_a_loop(test)


def test_vm_that_has_used_least_is_served_first() -> None:
    def test() -> None:
        slots = fair(2)
        running = [queued(slots, vm) for vm in ("a", "b")]
        again, new = queued(slots, "a"), queued(slots, "c")
        slots.release(running[0])
        assert (again.vm, new.vm) == (None, "c")

    on_a_loop(test)


def test_run_of_the_vm_that_has_used_most_is_stopped() -> None:
    def test() -> None:
        slots = fair(3)
        tickets = [queued(slots, vm) for vm in ("a", "b", "b")]
        for ticket in tickets:
            slots.end_slice(ticket)
        queued(slots, "c")
        assert [ticket.stopped.done() for ticket in tickets] == [False, True, False]

    on_a_loop(test)


def test_each_waiting_vm_stops_one_run() -> None:
    def test() -> None:
        slots = fair(3)
        tickets = [queued(slots, vm) for vm in ("a", "b", "c")]
        for ticket in tickets:
            slots.end_slice(ticket)
        for vm in ("d", "d", "e"):
            queued(slots, vm)
        assert [ticket.stopped.done() for ticket in tickets] == [True, True, False]

    on_a_loop(test)


def test_long_run_is_not_stopped() -> None:
    def test() -> None:
        slots = fair(2)
        long, other = queued(slots, "a", is_long=True), queued(slots, "b")
        slots.end_slice(long)
        queued(slots, "c")
        assert not long.stopped.done()
        slots.end_slice(other)
        assert other.stopped.done()

    on_a_loop(test)


def test_long_runs_come_first_but_leave_a_slot() -> None:
    def test() -> None:
        slots = fair(2)
        running = [queued(slots, vm) for vm in ("a", "b")]
        waiting = queued(slots, "c")
        long = [queued(slots, vm, is_long=True) for vm in ("d", "e", "d")]
        for ticket in running:
            slots.release(ticket)
        assert (long[0].vm, waiting.vm) == ("d", "c")
        slots.release(waiting)
        assert [ticket.is_open for ticket in long] == [False, True, True]
        slots.release(long[0])
        assert [ticket.is_open for ticket in long] == [False, False, True]

    on_a_loop(test)


def test_queue_of_long_runs_refuses_nobody() -> None:
    def test() -> None:
        slots = fair(1, 1)
        assert [queued(slots, "a", is_long=True).is_open for _ in range(4)] == [False, True, True, True]

    on_a_loop(test)


# The service --------------------------------------------------------------------------------------


class Rig:
    """A service whose runs end when the test says so; their image is the source."""

    def __init__(self, directory: Path) -> None:
        self.started: list[str] = []
        """Sources, in the order in which their runs started."""
        self.running: dict[str, asyncio.Event] = {}
        policy = ServicePolicy(max_running=2, slice_seconds=0)
        cache = DiskCache(directory / "cache")
        self.service = CompileService(
            lambda *_: CompileJob(("cc",), "in", "out", (), "cc"),
            cache,
            mode="strict",
            log=get_logger(),
            policy=policy,
        )

    async def compile(
        self, _job: CompileJob, source: bytes, _limits: CompileLimits, _mode: SandboxMode, _quarters: Quarters
    ) -> CompileOutcome:
        name = source.decode()
        self.started.append(name)
        self.running[name] = asyncio.Event()
        try:
            await self.running[name].wait()
        finally:
            del self.running[name]
        return CompileOutcome(ok=True, image_fd=memfd.sealed("image", source), log="")

    def submit(self, name: str) -> asyncio.Task[CompileResult]:
        """Submits a source, whose first letter is the VM's name."""
        source_fd = memfd.sealed("source", name.encode())
        return self.service.submit(name[0], ProgramKind.CUDA_SOURCE, source_fd, (), Target("cpu"))

    async def endless(self, *names: str) -> dict[str, asyncio.Task[CompileResult]]:
        """Submits sources, each once the one before runs: their VMs have used less and less."""
        tasks: dict[str, asyncio.Task[CompileResult]] = {}
        for name in names:
            tasks[name] = self.submit(name)
            await self.until_running(*tasks)
        return tasks

    async def until_running(self, *names: str) -> None:
        """Waits until exactly these compilers run."""
        await turns_until(lambda: set(self.running) == set(names))

    async def end(self, task: asyncio.Task[CompileResult], name: str) -> None:
        """Ends a compiler, and takes its image."""
        self.running[name].set()
        result = await task
        assert result.image_fd is not None
        assert memfd.read(result.image_fd, 100) == name.encode()
        os.close(result.image_fd)


def run(directory: Path, test: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = Rig(directory)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vhost_backend.compiler.service.run_compile", rig.compile)
            try:
                await test(rig)
            finally:
                await rig.service.close()

    asyncio.run(main())


def test_neighbour_of_an_endless_vm_does_not_wait(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        bombs = [rig.submit("a0")]
        await rig.until_running("a0")
        bombs += [rig.submit(f"a{number}") for number in range(1, 4)]
        neighbour = rig.submit("b")
        await rig.until_running("a0", "b")
        await rig.end(neighbour, "b")
        assert not any(bomb.done() for bomb in bombs)

    run(tmp_path, test)


def test_neighbour_of_endless_vms_has_one_stopped_which_runs_again(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        bombs = await rig.endless("a0", "b0")
        neighbour = rig.submit("c")
        await rig.until_running("b0", "c")
        assert rig.started == ["a0", "b0", "c"]
        await rig.end(neighbour, "c")
        await rig.until_running("a0", "b0")
        late = rig.submit("d")
        await rig.until_running("a0", "d")  # b0 is stopped now; a0 was, and runs on
        await rig.end(bombs["a0"], "a0")
        await rig.until_running("b0", "d")
        await rig.end(late, "d")
        await rig.end(bombs["b0"], "b0")
        assert rig.started == ["a0", "b0", "c", "a0", "d", "b0"]
        assert rig.service.runs == 6

    run(tmp_path, test)


def test_stopped_request_that_is_cancelled_does_not_run_again(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        bombs = await rig.endless("a0", "b0")
        neighbour = rig.submit("c")
        await rig.until_running("b0", "c")
        bombs["a0"].cancel()
        with pytest.raises(asyncio.CancelledError):
            await bombs["a0"]
        await rig.end(neighbour, "c")
        await rig.end(bombs["b0"], "b0")
        assert rig.started == ["a0", "b0", "c"]

    run(tmp_path, test)
