"""What the tests of vgcctl share: commands run on the test's loop against simulated daemons, and what they printed."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_center.cli import command
from control_center.cli.output import Output
from control_center.cli.problems import CommandError
from tests.fakes.control_daemon import FakeDaemon
from tests.fakes.control_world import Shape

SHAPE = Shape(gpus=2, pes=4, vms_per_gpu=1)
"""Of a simulated host: h1-vm0 on GPU 0 and h1-vm1 on GPU 1, of four elements each."""


@dataclass
class Ran:
    """What came of a command."""

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
    """Runs a command while its daemons work: records are pushed whenever the loop comes round."""
    task = asyncio.ensure_future(work)
    while not task.done():
        for daemon in daemons:
            daemon.tick()
        await asyncio.wait({task}, timeout=0.01)
    return task.result()


def with_daemon(tmp_path: Path, test: Callable[[FakeDaemon], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Runs `test` with a simulated daemon, which vgcctl is to ask with ``--daemon``."""

    async def run() -> None:
        async with FakeDaemon("h1", tmp_path / "h1.sock", shape=SHAPE, **options) as daemon:
            await test(daemon)

    asyncio.run(run())


async def until(condition: Callable[[], bool], daemon: FakeDaemon) -> None:
    """Lets a daemon work until something is so."""
    async with asyncio.timeout(10):
        while not condition():
            daemon.tick()
            with suppress(TimeoutError):
                await asyncio.sleep(0.005)
