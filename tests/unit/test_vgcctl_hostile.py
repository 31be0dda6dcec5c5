"""Attacks on the user's terminal: by texts of guests, and by servers that answer nonsense."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from control_center.cli.output import Output, event_line, harmless, one_line, record_line
from tests.fakes.control_daemon import FakeDaemon
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.vgcctl_rig import vgcctl, with_daemon

ROW = {
    "host": "h1",
    "vm": "web1",
    "pe": 0,
    "fn": "log",
    "level": 2,
    "time_ns": 1_700_000_000 * 10**9,
    "kind": "format",
    "text": "all is well",
}
TRICKS = [
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "\r overwritten",
    "\u202egnol si txet",
    "\u2066\u200bhidden\u2069",
    "\u2028next",
    "\x00\x7f\b",
]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(print_on: str, *, colour: bool) -> str:
    screen = Screen()
    out = Output(colour=colour, out=screen, err=screen)
    for field in ("host", "vm", "fn", "kind", "text"):
        out.line(record_line({**ROW, field: print_on}, out))
    out.line(
        event_line({"host": print_on, "vm": print_on, "event": print_on, "time_ns": 0, "detail": {"x": print_on}}, out)
    )
    out.line(out.paint(print_on, "green") + print_on)
    out.rows(("x",), [{"x": print_on}], title=print_on)
    out.note(print_on)
    out.error(print_on)
    return screen.getvalue()


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("colour", [True, False])
def test_no_text_contains_control_characters(trick: str, colour: bool) -> None:
    found = shown(trick, colour=colour)
    ours = [f"\x1b[{code}m" for code in (0, 1, 31, 32, 33, 34, 90)] if colour else ["\x1b[31mvgcctl:\x1b[0m"]
    for sequence in [*ours, "\x1b[31m", "\x1b[0m"]:
        found = found.replace(sequence, "")
    assert found.replace("\n", "").isprintable()


def test_no_text_can_forge_an_output_line() -> None:
    out = Output(colour=False, out=io.StringIO(), err=io.StringIO())
    forged = f"fine\n{record_line({**ROW, 'vm': 'web2'}, out)}"
    assert len(record_line({**ROW, "text": forged}, out).splitlines()) == 1
    event = {"host": "h1", "vm": "web1", "event": "a\nb", "time_ns": 0, "detail": {"k\n": "v\n"}}
    assert len(event_line(event, out).splitlines()) == 1
    assert one_line("a\n\tb\u2028") == "a\\n b\\u2028"
    assert harmless("a\n\tb") == "a\n\tb"


def test_characters_that_a_terminal_lacks_are_replaced() -> None:
    raw = io.BytesIO()
    out = Output(colour=False, out=io.TextIOWrapper(raw, encoding="ascii"), err=io.StringIO())
    out.line("██ 50 % \ud800")
    assert raw.getvalue() == b"?? 50 % ?\n"


# ---- servers -------------------------------------------------------------------------------------


NONSENSE = [b"42", b'["x"]', b'{"hosts": 5}', b'[{"host": "\\ud800"}]', b"<html>", b"[" * 100_000, b"1e999"]
COMMANDS = [["ls"], ["tail", "fn=log"], ["stat"], ["fault"], ["fault", "watch"], ["replay"], ["close", "--all"]]


def test_nonsense_ends_a_command_with_one_line() -> None:
    async def run() -> None:
        body = b""

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Upgrade") is None:
                return web.Response(body=body, content_type="application/json")
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str(body.decode())
            await socket.close()
            return socket

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = "http://127.0.0.1:{1}".format(*runner.addresses[0])
        try:
            for body in NONSENSE:
                for argv in COMMANDS:
                    async with asyncio.timeout(ANSWERS_WITHIN_S):
                        ran = await vgcctl(*argv, "--centre", url)
                    assert (ran.code in (0, 1, 3, 4), len(ran.err.splitlines()) <= 1) == (True, True), (
                        body[:40],
                        argv,
                        ran,
                    )
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_nonsense_from_a_daemon_is_reported(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        answers: list[Any] = [42, [], {"vms": 5, "gpus": "x"}, {"gpus": [{}], "vms": [[]]}]
        for answer in answers:
            daemon.misbehave.answers = {"topology": answer, "ls": answer, "stat": answer, "faults": answer}
            for argv in (["ls"], ["stat"], ["fault"], ["close", "--all"]):
                ran = await vgcctl(*argv, "--daemon", daemon.url)
                assert ran.code in (3, 4), (answer, argv, ran)

    with_daemon(tmp_path, test)
