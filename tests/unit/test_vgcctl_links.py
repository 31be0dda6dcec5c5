"""vgcctl's background work: it renews channels and polls loads."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from control_center.cli import command, context
from control_center.cli.context import Context
from control_center.cli.daemon_side import DaemonSide
from control_center.cli.link import Wanted
from control_center.cli.output import Output
from control_center.cli.problems import RefusalError
from control_center.errors import RefusedError
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.control import tokens
from virtio_proto.control.verbs.base import Request
from virtio_proto.control.verbs.channels import Set
from virtio_proto.control.verbs.hosts import Load


def test_channels_of_other_hosts_are_renewed_when_one_host_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(context, "_RENEWALS", 1e6)

    async def run() -> None:
        renewed = asyncio.Event()
        rounds = iter(range(3))

        async def ask(request: Request, host: str | None = None) -> Any:
            if request.verb is Set and host == "h1":
                raise RefusalError("the host is gone")
            if request.verb is Set and next(rounds, None) is None:
                renewed.set()
            return {"instances": [{"instance": "h1/1"}, {"instance": "h2/1"}], "failed": []}

        link: Any = SimpleNamespace(ask=ask)
        async with (
            context.opened(Context(argparse.Namespace(), Output(), link), "", ("log",), {}),
            asyncio.timeout(ANSWERS_WITHIN_S),
        ):
            await renewed.wait()

    asyncio.run(run())
    assert capsys.readouterr().err == "h1/1 is not renewed: the host is gone\n"


def test_a_refused_load_ends_the_stream_with_the_daemons_text() -> None:
    async def run() -> None:
        async def ask(request: Request) -> object:
            if request.verb is Load:
                raise RefusedError("denied", "not for you")
            return {}

        side = DaemonSide("unix:/nowhere")
        closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        connection: Any = SimpleNamespace(hello={"host": "h1"}, closed=closed, ask=ask)
        side.connection = connection
        with pytest.raises(RefusalError, match="not for you"):
            await asyncio.wait_for(anext(side.stream(Wanted(load=True))), ANSWERS_WITHIN_S)

    asyncio.run(run())


@pytest.mark.parametrize("given", [("--vm", "a", "b"), ("--vms", "a", "b"), ("--vm", "a", "--vm", "b")])
def test_both_commands_accept_a_tokens_vms_in_either_form(
    given: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from vhost_backend.cli import main

    for made in (command.main, main):
        assert made(["token", "new", "--role", "view", *given]) == 0
        line = capsys.readouterr().out.splitlines()[-1].strip()
        assert tokens.parse(line, "here")[0].vms == frozenset("ab")
