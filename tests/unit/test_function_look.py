"""Looks at the work by function: of a worker that answers, is late, or is gone; and the verb that they are for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.registry_rig import rig
from tests.unit.test_control_access import token_file
from vhost_backend.control.links.vm_port import ProgramView
from vhost_backend.daemon import function_look
from vhost_backend.daemon.function_look import FunctionLook
from vhost_backend.worker_protocol.link import Answer, Build
from vhost_backend.worker_protocol.protocol import Ack, FunctionFigures, Functions
from virtio_proto.control import tokens as token_lines

SWEEP = FunctionFigures("sweep", 3, 700, (0, 3))
OTHER = FunctionFigures("(others)", 1, 0, ())


class FakeLink:
    """A link whose worker answers when a test says so."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def post(self, _build: Build) -> Answer:
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


def looking(look: FunctionLook, link: FakeLink) -> asyncio.Task[Any]:
    return asyncio.ensure_future(look.look(cast("Any", link)))


def test_looks_at_the_same_time_are_one() -> None:
    async def story() -> None:
        look, link = FunctionLook(), FakeLink()
        tasks = [looking(look, link) for _ in range(3)]
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        (answer,) = link.answers
        look.on_functions(Functions((SWEEP,)))
        answer.set_result(Ack(1, True, "", 0, 0))
        assert await asyncio.gather(*tasks) == [(SWEEP,)] * 3

    asyncio.run(story())


def test_look_that_begins_as_another_ends_takes_nothing_from_it() -> None:
    async def story() -> None:
        look, link = FunctionLook(), FakeLink()
        first = looking(look, link)
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        second = looking(look, link)  # its turn is before that of the first, which has to hear of the answer yet
        look.on_functions(Functions((SWEEP,)))
        link.answers[0].set_result(Ack(1, True, "", 0, 0))
        look.on_functions(Functions((OTHER,)))
        await asyncio.sleep(0)  # noqa: TID251  likewise
        look.on_functions(Functions((OTHER,)))
        link.answers[1].set_result(Ack(2, True, "", 0, 0))
        assert (await first, await second) == ((SWEEP,), (OTHER,))

    asyncio.run(story())


@pytest.mark.parametrize("ack", [None, Ack(1, False, "no", 0, 0)])
def test_worker_that_is_gone_or_refuses_says_nothing(ack: Ack | None) -> None:
    async def story() -> None:
        look, link = FunctionLook(), FakeLink()
        look.on_functions(Functions((SWEEP,)))  # nobody asked: it does not count
        task = looking(look, link)
        await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, no nap
        link.answers[0].set_result(ack)
        assert await task is None

    asyncio.run(story())


def test_worker_that_is_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_look, "LOOK_S", 0.001)

    async def story() -> None:
        look, link = FunctionLook(), FakeLink()
        assert await looking(look, link) is None
        assert await looking(look, link) is None
        assert len(link.answers) == 1  # it is asked again only once it has answered

    asyncio.run(story())


def test_verb_has_the_functions_of_chosen_vms_and_names_silent_ones(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", frozenset({"web1"}), None, "owner")

    async def story() -> None:
        async with rig(tmp_path, tokens=token_file(tmp_path, token)) as made:
            client = await made.client()
            made.vms["web1"].work, made.vms["web2"].work = (SWEEP, OTHER), None
            answer = await client.ask("functions")
            assert [(row["vm"], row["function"]) for row in answer["functions"]] == [
                ("web1", "sweep"),
                ("web1", "(others)"),
            ]
            assert (answer["functions"][0]["launches"], answer["functions"][0]["times"]) == (3, [0, 3])
            assert answer["silent"] == ["web2"]
            assert (await client.ask("functions", selector="vm=web2"))["functions"] == []
            owner = await made.client(secret)
            assert (await owner.ask("functions"))["silent"] == []
            assert (await owner.refusal("functions", selector="vm=web2")).kind == "unknown"

    asyncio.run(story())


def test_verb_has_the_registered_programs_of_chosen_vms(tmp_path: Path) -> None:
    secret, token = token_lines.new("view", frozenset({"web1"}), None, "owner")

    async def story() -> None:
        async with rig(tmp_path, tokens=token_file(tmp_path, token)) as made:
            client = await made.client()
            made.vms["web1"].registered = (ProgramView(3, ("sweep(pointer)",), 2, True, 70, "line 1: error"),)
            made.vms["web2"].registered = (ProgramView(1, ("blur(int32)",), 1, False, 9, ""),)
            first, second = (await client.ask("programs"))["programs"]
            assert first == {
                "vm": "web1",
                "program": 3,
                "functions": ["sweep(pointer)"],
                "num_functions": 2,
                "kept": True,
                "size_bytes": 70,
                "problem": "line 1: error",
            }
            assert (second["vm"], second["kept"], second["problem"]) == ("web2", False, "")
            assert (await client.ask("programs", selector="vm=web2"))["programs"] == [second]
            owner = await made.client(secret)
            assert (await owner.ask("programs"))["programs"] == [first]
            assert (await owner.refusal("programs", selector="vm=web2")).kind == "unknown"

    asyncio.run(story())
