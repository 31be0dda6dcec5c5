"""The compile service: one compiler run per program, VMs served in turn, no run for requests that were cancelled.

Compilers are ``cp`` in the real sandbox. One that has to wait copies from a FIFO (`Gate`) until a test opens it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.descriptors import open_fds
from tests.limits import ANSWERS_WITHIN_S
from tests.waiting import turns_until
from vhost_backend.compiler.cache import DiskCache, MemoryCache
from vhost_backend.compiler.job import INSIDE, CompileJob, Target
from vhost_backend.compiler.queue import FairSlots, Ticket
from vhost_backend.compiler.run import CompileOutcome
from vhost_backend.compiler.service import CompileResult, CompileService, ServicePolicy
from vhost_backend.errors import DriverError, QuotaError
from vhost_backend.log import get_logger
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox import build, memfd
from vhost_backend.sandbox.terms import Bind
from virtio_proto.schema import ProgramKind, Status

COPY = Path("/usr/bin/cp")
PROGRAMS = (Bind(COPY, INSIDE / "bin" / "cp"),)


class Gate:
    """A gate for which compilers of sources that start with ``wait`` wait."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "gate"
        os.mkfifo(self.path)
        self.path.chmod(0o666)

    async def compiler_is_there(self) -> int:
        """Returns once a compiler reads the gate; closing the returned descriptor lets the compiler go on."""
        return await asyncio.to_thread(os.open, self.path, os.O_WRONLY)


class Rig:
    """A service with its disk cache; a test can change `describe`."""

    def __init__(self, directory: Path) -> None:
        self.gate = Gate(directory)
        self.cache_directory = directory / "cache"
        self.domains = dict.fromkeys("abc", "shared")
        self.memory = MemoryCache()

    def describe(self, target: Target, kind: ProgramKind, source: bytes, options: tuple[str, ...]) -> CompileJob:
        del kind, options
        if source == b"unknown":
            raise DriverError(Status.UNSUPPORTED, f"the {target.engine} engine does not compile this")
        if source == b"bad":
            return CompileJob((COPY, "missing", "out"), "in", "out", PROGRAMS, "cp")
        if source.startswith(b"wait"):
            paths = (*PROGRAMS, Bind(self.gate.path, INSIDE / "gate"))
            return CompileJob((COPY, self.gate.path, "out"), "in", "out", paths, "cp")
        return CompileJob((COPY, "in", "out"), "in", "out", PROGRAMS, "cp")

    def service(self, policy: ServicePolicy | None = None) -> CompileService:
        disk = DiskCache(self.cache_directory)
        log = get_logger()
        return CompileService(
            self.describe, disk, mode="strict", log=log, policy=policy, memory=self.memory, domains=self.domains
        )

    def run(self, test: Callable[[CompileService], Awaitable[None]], policy: ServicePolicy | None = None) -> None:
        async def main() -> None:
            service = self.service(policy)
            try:
                await test(service)
            finally:
                await service.close()

        asyncio.run(main())


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # the gate is opened by an unprivileged compiler
        yield Rig(Path(name))


def submit(service: CompileService, source: bytes, vm: str = "a") -> asyncio.Task[CompileResult]:
    return service.submit(vm, ProgramKind.CUDA_SOURCE, memfd.sealed("source", source), (), Target("cpu"))


def take_image(result: CompileResult) -> bytes:
    assert result.image_fd is not None, result.log
    assert memfd.is_sealed(result.image_fd)
    image = memfd.read(result.image_fd, 1 << 20)
    os.close(result.image_fd)
    return image


def test_program_is_compiled_once_and_then_cached(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        first = await submit(service, b"program", "a")
        second = await submit(service, b"program", "b")
        assert (take_image(first), first.from_cache) == (b"program", False)
        assert (take_image(second), second.from_cache) == (b"program", True)
        assert service.runs == 1

    rig.run(test)


def test_loop_goes_on_while_the_engine_looks_at_its_compiler(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    describe, goes_on = rig.describe, threading.Event()

    def look(*asked: Any) -> CompileJob:
        assert goes_on.wait(ANSWERS_WITHIN_S), "the loop waits for the engine"
        return describe(*asked)

    monkeypatch.setattr(rig, "describe", look)

    async def test(service: CompileService) -> None:
        programs = [submit(service, b"one"), submit(service, b"two")]
        asyncio.get_running_loop().call_later(0, goes_on.set)
        assert [take_image(await program) for program in programs] == [b"one", b"two"]

    rig.run(test)


def test_no_thread_is_started_for_a_program_that_was_asked_for_before(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe, threads = rig.describe, list[int]()

    def look(*asked: Any) -> CompileJob:
        threads.append(threading.get_ident())
        return describe(*asked)

    monkeypatch.setattr(rig, "describe", look)

    async def test(service: CompileService) -> None:
        for source in (b"one", b"one", b"two", b"one"):
            assert take_image(await submit(service, source)) == source

    rig.run(test)
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [False, True, False, True]


def test_program_of_another_domain_is_not_found(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        results = [await submit(service, b"program", vm) for vm in ("a", "stranger", "other", "stranger")]
        assert [take_image(result) for result in results] == [b"program"] * 4
        assert [result.from_cache for result in results] == [False, False, False, True]
        assert service.runs == 3

    rig.run(test)


def test_memory_has_no_programs_of_vms_that_have_left(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        for vm in ("a", "stranger"):
            take_image(await submit(service, b"program", vm))
        service.admit("stranger", "its own", NOWHERE, "strict")
        take_image(await submit(service, b"program", "stranger"))
        for vm, left in (("a", 3), ("b", 3), ("stranger", 2), ("c", 1)):
            service.dismiss(vm)
            assert len(rig.memory) == left

    rig.run(test)


def test_program_of_another_domain_is_not_found_on_disk(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        result = await submit(service, b"program", names.pop())
        results.append((take_image(result), result.from_cache))

    names = ["stranger", "other", "stranger"]
    results: list[tuple[bytes, bool]] = []
    for _ in range(3):
        rig.run(test)
    assert results == [(b"program", False), (b"program", False), (b"program", True)]


def test_compiler_of_another_domain_is_not_joined(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        first = submit(service, b"wait", "a")
        gate = await rig.gate.compiler_is_there()
        second = submit(service, b"wait", "stranger")
        os.close(gate)
        assert take_image(await first) == b""
        await turns_until(lambda: service.runs == 2)
        os.close(await rig.gate.compiler_is_there())
        assert take_image(await second) == b""

    rig.run(test, ServicePolicy(max_running=1))


def test_program_is_cached_across_a_restart(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        results.append(await submit(service, b"program"))

    results: list[CompileResult] = []
    rig.run(test)
    rig.run(test)
    assert [take_image(result) for result in results] == [b"program", b"program"]
    assert [result.from_cache for result in results] == [False, True]


def test_damaged_program_is_compiled_anew(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        results.append(await submit(service, b"program"))

    results: list[CompileResult] = []
    rig.run(test)
    (stored,) = rig.cache_directory.iterdir()
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    rig.run(test)
    assert [take_image(result) for result in results] == [b"program", b"program"]
    assert not results[1].from_cache


def test_large_source_is_compiled(rig: Rig) -> None:
    source = bytes(range(256)) * 4000

    async def test(service: CompileService) -> None:
        assert take_image(await submit(service, source)) == source

    rig.run(test)


def test_failure_carries_the_log_and_is_not_cached(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        for _ in range(2):
            result = await submit(service, b"bad")
            assert not result.ok
            assert "No such file" in result.log
        assert service.runs == 2

    rig.run(test)


def test_program_that_the_engine_cannot_compile_is_answered(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        result = await submit(service, b"unknown")
        assert (result.ok, result.log) == (False, "the cpu engine does not compile this")

    rig.run(test)


def test_identical_programs_share_one_compiler(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        tasks = [submit(service, b"wait", vm) for vm in ("a", "b", "c")]
        os.close(await rig.gate.compiler_is_there())
        results = await asyncio.gather(*tasks)
        assert [take_image(result) for result in results] == [b"", b"", b""]
        assert service.runs == 1

    rig.run(test)


def test_cancelled_request_does_not_stop_a_shared_compiler(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        leaving, staying = submit(service, b"wait", "a"), submit(service, b"wait", "b")
        gate = await rig.gate.compiler_is_there()
        leaving.cancel()
        await asyncio.wait([leaving])
        os.close(gate)
        assert take_image(await staying) == b""

    rig.run(test)


def test_last_cancelled_request_frees_the_compilers_slot(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        leaving = submit(service, b"wait")
        gate = await rig.gate.compiler_is_there()
        leaving.cancel()
        assert take_image(await submit(service, b"program")) == b"program"
        os.close(gate)

    rig.run(test, ServicePolicy(max_running=1))


def test_cancelled_request_in_the_queue_is_skipped(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        running = submit(service, b"wait")
        gate = await rig.gate.compiler_is_there()
        leaving, staying = submit(service, b"first"), submit(service, b"second")
        leaving.cancel()
        os.close(gate)
        assert take_image(await running) == b""
        assert take_image(await staying) == b"second"
        assert service.runs == 2

    rig.run(test, ServicePolicy(max_running=1))


def test_program_of_a_vm_that_has_left_is_compiled_where_another_waits_for_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Quarters] = []

    async def run(*arguments: Any) -> CompileOutcome:
        seen.append(arguments[-1])
        return CompileOutcome(ok=False, image_fd=None, log="")

    async def test(service: CompileService) -> None:
        for number, vm in enumerate("ab"):
            service.admit(vm, "shared", Quarters(user=number), "best-effort")
        monkeypatch.setattr("vhost_backend.compiler.service.run_compile", run)
        first, second = submit(service, b"program", "a"), submit(service, b"program", "b")
        first.cancel()
        service.dismiss("a")
        await second
        assert seen == [Quarters(user=1)]

    rig.run(test)


def test_vm_with_too_many_waiting_programs_is_refused(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        running = submit(service, b"wait")
        gate = await rig.gate.compiler_is_there()
        others = [submit(service, source) for source in (b"1", b"2", b"3")]
        refused, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        (result,) = [task.result() for task in refused]
        assert "2 programs of this VM wait for a compiler; allowed: 2" in result.log
        os.close(gate)
        done = await asyncio.gather(running, *others)
        assert sum(take_image(each) is not None for each in done if each.ok) == 3

    rig.run(test, ServicePolicy(max_running=1, max_waiting_per_vm=2))


def test_closing_ends_compilers_and_leaks_nothing(rig: Rig) -> None:
    async def test(service: CompileService) -> None:
        tasks.append(submit(service, b"wait"))
        os.close(await rig.gate.compiler_is_there())

    tasks: list[asyncio.Task[CompileResult]] = []
    rig.run(test)
    tasks.clear()
    before = open_fds()
    rig.run(test)
    (task,) = tasks
    if not task.cancelled():
        take_image(task.result())
    assert open_fds() == before


# Fairness -----------------------------------------------------------------------------------------


def grant_order(slots: FairSlots, wishes: list[tuple[str, Ticket]]) -> list[str]:
    """Queues all wishes, then releases every slot as it is granted; returns the order of VMs."""
    order: list[str] = []
    for vm, ticket in wishes:
        slots.enqueue(vm, ticket)
    waiting = [ticket for _, ticket in wishes]
    while waiting:
        granted = next(ticket for ticket in waiting if not ticket.is_open)
        waiting.remove(granted)
        assert granted.vm is not None
        order.append(granted.vm)
        slots.release(granted)
    return order


def test_vms_are_served_in_turn() -> None:
    async def test() -> None:
        wishes = [(vm, Ticket()) for vm in ("running", "a", "a", "a", "b", "c")]
        assert grant_order(FairSlots(1, 10, lambda: 0.0), wishes) == ["running", "a", "b", "c", "a", "a"]

    asyncio.run(test())


def test_one_vm_never_has_all_the_slots() -> None:
    async def test() -> None:
        slots = FairSlots(2, 10)
        first, second, other = Ticket(), Ticket(), Ticket()
        slots.enqueue("a", first)
        slots.enqueue("a", second)
        slots.enqueue("b", other)
        assert (first.is_open, second.is_open, other.is_open) == (False, True, False)

    asyncio.run(test())


def test_ticket_shared_by_two_vms_is_served_once() -> None:
    async def test() -> None:
        slots = FairSlots(1, 10, lambda: 0.0)
        running, shared, last = Ticket(), Ticket(), Ticket()
        slots.enqueue("a", running)
        slots.enqueue("a", shared)
        slots.enqueue("b", shared)
        slots.enqueue("b", last)
        slots.release(running)
        assert shared.vm in {"a", "b"}
        assert last.is_open
        slots.release(shared)
        assert last.vm == "b"

    asyncio.run(test())


def test_queue_of_a_vm_is_bounded() -> None:
    async def test() -> None:
        slots = FairSlots(1, 1)
        slots.enqueue("a", Ticket())
        slots.enqueue("a", Ticket())
        with pytest.raises(QuotaError, match="1 programs of this VM wait"):
            slots.enqueue("a", Ticket())

    asyncio.run(test())
