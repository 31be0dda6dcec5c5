"""Relay of compile requests: a worker's source files, and what is refused without compiling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import CompileResult
from vhost_backend.config.daemon import VmConfig, vm_uuid
from vhost_backend.config.engine import EngineConfig, EngineName
from vhost_backend.daemon.compile_relay import CompileCounts, CompileRelay
from vhost_backend.daemon.engines import Choice
from vhost_backend.engines.cuda.builtins import sources as cuda_sources
from vhost_backend.errors import HostError
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol import sources
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import Compile, HostProgram, Program
from virtio_proto.schema import ProgramKind


class HeldCompiler:
    """Compiler that finishes when the test says so. Owns the descriptors that it was given."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[CompileResult]] = []
        self.seen: list[bytes] = []
        self.callers: list[str] = []

    def submit(
        self, vm: str, _kind: ProgramKind, source_fd: int, _options: tuple[str, ...], _target: Target
    ) -> asyncio.Future[CompileResult]:
        self.seen.append(os.pread(source_fd, 100, 0))
        self.callers.append(vm)
        os.close(source_fd)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def close(self) -> None:
        """Nothing to end."""


class Told:
    """Link that keeps the messages for the worker."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.faults: list[str] = []
        self.all_read = True

    def charge(self, _seconds: float) -> None:
        """A budget without end."""

    def condemn(self, reason: str) -> None:
        self.faults.append(reason)

    def tell(self, build: Callable[[int], Program], _fds: tuple[int, ...] = ()) -> None:
        self.programs.append(build(len(self.programs)))


class Stage:
    def __init__(self, engine: EngineName = "null") -> None:
        self.compiler, self.link, self.files = HeldCompiler(), Told(), sources.make()
        config = VmConfig("vm", vm_uuid("vm"), engine=EngineConfig(engine))
        choice = Choice(config, Target(engine), 1)
        link = cast("WorkerLink", self.link)
        self.logged: list[str] = []
        self.counts = CompileCounts()
        log = cast("Any", SimpleNamespace(error=lambda _event, **values: self.logged.append(values["error"])))
        self.relay = CompileRelay(choice, cast("Any", self.compiler), link, log, self.files, counts=self.counts)

    def ask(self, request: int, source: int, text: bytes = b"kernel") -> None:
        os.pwrite(self.files[source].fileno(), text, 0)
        self.relay.submit(Compile(request, 1, ProgramKind.CUDA_SOURCE, (), source))


def run(test: Callable[[Stage], Awaitable[None]], engine: EngineName = "null") -> None:
    async def story() -> None:
        await test(Stage(engine))

    asyncio.run(story())


def test_a_source_file_carries_one_program_at_a_time() -> None:
    async def test(stage: Stage) -> None:
        stage.ask(7, source=2)
        stage.ask(8, source=2)
        assert stage.link.faults == ["asked for two compilations with source file 2 at a time"]
        stage.compiler.futures[0].set_result(CompileResult(False, None, "line 1", False, 0))
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        assert [program.request for program in stage.link.programs] == [7]
        stage.ask(9, source=2, text=b"other!")
        assert stage.compiler.seen == [b"kernel", b"other!"]

    run(test)


def test_no_worker_has_more_programs_at_the_compiler_than_source_files() -> None:
    async def test(stage: Stage) -> None:
        for request in range(1000):
            stage.ask(request, source=request % NUM_SOURCES)
        assert len(stage.compiler.futures) == NUM_SOURCES
        assert len(stage.link.faults) == 1000 - NUM_SOURCES

    run(test)


def test_programs_are_counted_by_their_end() -> None:
    async def test(stage: Stage) -> None:
        ends = ((False, "line 1", False), (True, "", True), (True, "", False))
        for source, (ok, log, from_cache) in enumerate(ends):
            stage.ask(source, source)
            image = memfd.sealed("image", b"code") if ok else None
            stage.compiler.futures[source].set_result(CompileResult(ok, image, log, from_cache, 0.5))
        stage.ask(3, source=3)
        stage.compiler.futures[3].set_exception(HostError("no compiler"))
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        found = stage.counts
        assert (found.compiled, found.cached, found.failed, found.taken_ns) == (1, 1, 2, 1_500_000_000)

    run(test)


def test_closing_abandons_compilations_and_closes_the_files() -> None:
    async def test(stage: Stage) -> None:
        stage.ask(1, source=0)
        stage.relay.close()
        assert stage.compiler.futures[0].cancelled()
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        assert stage.link.programs == []
        assert all(file.closed for file in stage.files)

    run(test)


def test_reason_of_a_host_that_cannot_compile_stays_on_the_host() -> None:
    async def test(stage: Stage) -> None:
        stage.ask(7, source=0)
        stage.compiler.futures[0].set_exception(HostError("/home/operator/vgc/vgc-cpucc is missing"))
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        (answer,) = stage.link.programs
        assert (answer.ok, answer.log) == (False, "the host could not compile; its log has the reason")
        assert "/home/operator/vgc/vgc-cpucc is missing" in stage.logged[0]

    run(test)


# ---- programs of the host's own ------------------------------------------------------------------


def test_a_program_of_the_hosts_own_is_compiled_from_the_hosts_source() -> None:
    async def test(stage: Stage) -> None:
        stage.relay.submit_host(HostProgram(4, "blas"))
        assert stage.relay.pending == 1
        stage.compiler.futures[0].set_result(CompileResult(True, memfd.sealed("image", b"code"), "", False, 0))
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        assert (stage.compiler.callers, stage.relay.pending) == (["built-in functions"], 0)
        assert stage.compiler.seen == [cuda_sources.source("blas").encode()[:100]]
        assert [(program.request, program.ok) for program in stage.link.programs] == [(4, True)]
        assert stage.counts == CompileCounts()  # of the VM's programs

    run(test, "cuda")


@pytest.mark.parametrize(("engine", "name"), [("cuda", "nothing"), ("cpu", "blas")])
def test_a_worker_that_asks_for_what_it_cannot_need_is_condemned(engine: EngineName, name: str) -> None:
    async def test(stage: Stage) -> None:
        stage.relay.submit_host(HostProgram(4, name))
        assert stage.link.faults == [f"asked for the host's program {name}, which it cannot need"]
        assert stage.compiler.futures == []

    run(test, engine)


def test_a_worker_that_asks_for_a_program_twice_at_a_time_is_condemned() -> None:
    async def test(stage: Stage) -> None:
        for request in (4, 5):
            stage.relay.submit_host(HostProgram(request, "fft"))
        assert (len(stage.link.faults), len(stage.compiler.futures)) == (1, 1)
        stage.relay.close()
        assert stage.compiler.futures[0].cancelled()

    run(test, "cuda")


def test_a_worker_that_takes_no_programs_gets_none_of_the_hosts_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage) -> None:
        stage.link.all_read = False
        stage.relay.submit_host(HostProgram(4, "blas"))
        stage.compiler.futures[0].set_result(CompileResult(True, memfd.sealed("image", b"x" * 100), "", False, 0))
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        stage.relay.submit_host(HostProgram(5, "fft"))
        assert len(stage.compiler.futures) == 1
        assert stage.link.programs[-1].log == "100 bytes of programs have not been taken yet; allowed: 100"
        stage.link.all_read = True
        stage.relay.submit_host(HostProgram(6, "fft"))
        assert len(stage.compiler.futures) == 2

    monkeypatch.setattr("vhost_backend.daemon.compile_relay.IMAGE_BYTES", 100)
    run(test, "cuda")
