"""Rig of vgcctl's tests: runs commands on the test's loop against simulated daemons, and keeps their output."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_center.cli import command
from control_center.cli.output import Output
from control_center.cli.problems import CommandError
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_world import Shape
from tests.limits import ANSWERS_WITHIN_S

SHAPE = Shape(gpus=2, pes=4, vms_per_gpu=1)
"""Shape of a simulated host: h1-vm0 on GPU 0 and h1-vm1 on GPU 1, of four elements each."""

TICK_S = 0.01
"""Interval of a simulated daemon's ticks, in seconds."""


@dataclass
class Ran:
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


async def vgcctl(*argv: str) -> Ran:
    """Runs a command to its end, on this loop."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            given = command.parse(argv)
        except SystemExit as error:
            return Ran(int(error.code or 0), out.getvalue(), err.getvalue())
        output = Output(as_json=getattr(given, "json", False))
        try:
            code = await command.execute(given, output)
        except CommandError as error:
            output.error(str(error))
            code = error.exit_code
    return Ran(code, out.getvalue(), err.getvalue())


async def ticking(work: Awaitable[Ran], *daemons: FakeDaemon) -> Ran:
    """Runs a command while its daemons tick with every turn of the loop, and so push records."""
    task = asyncio.ensure_future(work)
    while not task.done():
        for daemon in daemons:
            daemon.tick()
        await asyncio.wait({task}, timeout=TICK_S)
    return task.result()


def with_daemon(tmp_path: Path, test: Callable[[FakeDaemon], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Runs `test` with a simulated daemon, which vgcctl is to ask with ``--daemon``."""

    async def run() -> None:
        async with FakeDaemon("h1", tmp_path / "h1.sock", shape=SHAPE, **options) as daemon:
            await test(daemon)

    asyncio.run(run())


async def until(condition: Callable[[], bool], daemon: FakeDaemon) -> None:
    """Ticks a daemon until the condition holds."""
    async with asyncio.timeout(ANSWERS_WITHIN_S):
        while not condition():
            daemon.tick()
            await asyncio.sleep(TICK_S)  # noqa: TID251  the pace of the daemon's work
