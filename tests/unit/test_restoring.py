"""Programs that a new worker gets before it serves its guest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.test_vm_registrations import program
from vhost_backend.compiler.service import CompileResult
from vhost_backend.daemon import restoring
from vhost_backend.daemon.registrations import Registrations
from vhost_backend.daemon.restoring import Restoring
from vhost_backend.log import get_logger
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol.protocol import Ack
from vhost_backend.worker_protocol.registration_messages import Restore


class Stage:
    """A compiler that a test answers, and a worker that does."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.compiling: list[asyncio.Future[CompileResult]] = []
        self.sent: list[Restore] = []
        self.answers: list[asyncio.Future[Ack | None]] = []
        self.registrations = Registrations(get_logger(vm="a"), None)
        self.done = 0

    def refusal_of(self, _kind: int) -> str:
        return self.refusal

    def compile(self, _kind: int, source_fd: int, _options: tuple[str, ...]) -> asyncio.Future[CompileResult]:
        os.close(source_fd)
        self.compiling.append(asyncio.get_running_loop().create_future())
        return self.compiling[-1]

    def post(self, build: Callable[[int], Any], fds: tuple[int, ...], _timeout_s: float) -> asyncio.Future[Ack | None]:
        self.sent.append(build(len(self.sent)))
        assert len(fds) == self.sent[-1].num_fds()
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def tell(self) -> None:
        self.done += 1

    async def begin(self, *names: str) -> Restoring:
        for name in names:
            await self.registrations.add(program(name), keep=False)
        made = Restoring(self.registrations, self, self, get_logger(vm="a"), self.tell)  # type: ignore[arg-type]
        await turns()
        return made


async def turns() -> None:
    """Lets everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop


def compiled() -> CompileResult:
    return CompileResult(True, memfd.sealed("image", b"x"), "", from_cache=True, duration_seconds=0)


def test_programs_come_in_their_order_and_problems_are_noted() -> None:
    async def story() -> None:
        stage = Stage()
        await stage.begin("one", "two", "three")
        stage.compiling[1].set_result(compiled())
        await turns()
        assert stage.sent == []
        stage.compiling[0].set_result(CompileResult(False, None, "line 1: error", False, 0))
        stage.compiling[2].set_exception(OSError("no compiler"))
        for why in ("line 1: error", "", "the host could not compile it"):
            await turns()
            stage.answers[-1].set_result(Ack(0, not why, why, 0, 0))
        await turns()
        assert [(one.number, one.ok, one.log[:18]) for one in stage.sent] == [
            (1, False, "line 1: error"),
            (2, True, ""),
            (3, False, "the host could not"),
        ]
        assert [stage.registrations.problem_of(number)[:8] for number in (1, 2, 3)] == ["line 1: ", "", "the host"]
        assert stage.done == 1

    asyncio.run(story())


def test_what_the_worker_cannot_load_is_a_problem_too() -> None:
    async def story() -> None:
        stage = Stage()
        await stage.begin("one")
        stage.compiling[0].set_result(compiled())
        await turns()
        stage.answers[0].set_result(Ack(0, False, "too little memory", 0, 0))
        await turns()
        assert stage.registrations.problem_of(1) == "too little memory"

    asyncio.run(story())


def test_kinds_that_the_vm_may_not_load_any_more_are_not_compiled() -> None:
    async def story() -> None:
        stage = Stage("this VM may not load a PTX")
        await stage.begin("one")
        assert stage.compiling == []
        assert [(one.ok, one.log) for one in stage.sent] == [(False, "this VM may not load a PTX")]

    asyncio.run(story())


def test_the_guest_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "PATIENCE_S", 0)

    async def story() -> None:
        stage = Stage()
        await stage.begin("one")
        await turns()
        assert (stage.done, stage.sent) == (1, [])
        stage.compiling[0].set_result(compiled())
        await turns()
        stage.answers[0].set_result(Ack(0, True, "", 0, 0))
        await turns()
        assert stage.done == 1

    asyncio.run(story())


def test_an_abandoned_one_leaves_no_descriptor() -> None:
    async def story() -> None:
        stage = Stage()
        made = await stage.begin("one", "two", "three")
        image = compiled()
        stage.compiling[1].set_result(image)
        made.close()
        await turns()
        assert image.image_fd is not None
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(image.image_fd)
        assert stage.compiling[0].cancelled()
        assert stage.compiling[2].cancelled()
        assert stage.done == 0

    asyncio.run(story())
