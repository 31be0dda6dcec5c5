"""What vgcctl does beside what it shows: channels that are renewed, loads that are asked for."""

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
from virtio_proto.control import tokens


def test_channels_of_other_hosts_are_renewed_where_one_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(context, "_RENEWALS", 1e6)

    async def run() -> None:
        renewed = asyncio.Event()
        rounds = iter(range(3))

        async def change(name: str, _fields: object) -> None:
            if name == "h1/1":
                raise RefusalError("the host is gone")
            if next(rounds, None) is None:
                renewed.set()

        async def opened(_request: object) -> Any:
            return {"instances": [{"instance": "h1/1"}, {"instance": "h2/1"}], "failed": []}

        async def close(_name: str) -> None: ...

        link: Any = SimpleNamespace(change=change, open=opened, close=close)
        async with context.opened(Context(argparse.Namespace(), Output(), link), "", ("log",), {}), asyncio.timeout(10):
            await renewed.wait()

    asyncio.run(run())
    assert capsys.readouterr().err == "h1/1 is not renewed: the host is gone\n"


def test_a_stream_ends_with_what_the_daemon_says_to_load() -> None:
    async def run() -> None:
        async def call(verb: str, _fields: object) -> object:
            if verb == "load":
                raise RefusedError("denied", "not for you")
            return {}

        side = DaemonSide("unix:/nowhere")
        closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        connection: Any = SimpleNamespace(hello={"host": "h1"}, closed=closed, call=call)
        side.connection = connection
        with pytest.raises(RefusalError, match="not for you"):
            await asyncio.wait_for(anext(side.stream(Wanted(load=True))), 10)

    asyncio.run(run())


@pytest.mark.parametrize("given", [("--vm", "a", "b"), ("--vms", "a", "b"), ("--vm", "a", "--vm", "b")])
def test_a_tokens_vms_may_be_said_as_vgcd_and_as_vgcctl_does(
    given: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from vhost_backend.cli import main

    for made in (command.main, main):
        assert made(["token", "new", "--role", "view", *given]) == 0
        line = capsys.readouterr().out.splitlines()[-1].strip()
        assert tokens.parse(line, "here")[0].vms == frozenset("ab")
