"""vgcctl as a process: interrupted, with a closed pipe, with typed input."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.fakes.control_daemon import FakeDaemon
from tests.unit.vgcctl_rig import until, with_daemon


async def started(*argv: str, out: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    program = [sys.executable, "-m", "control_center.cli", *argv]
    return await asyncio.create_subprocess_exec(
        *program, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_tail_and_closes_its_channels_without_an_error(tmp_path: Path, number: signal.Signals) -> None:
    async def test(daemon: FakeDaemon) -> None:
        process = await started("tail", "fn=stdio", "--daemon", daemon.url)
        await until(lambda: any(verb == "subscribe" for verb, _ in daemon.asked), daemon)
        process.send_signal(number)
        _, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert ("close", {"instance": 1}) in daemon.asked
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_ctrl_c_ends_a_console_that_waits_for_input(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        program = [sys.executable, "-m", "control_center.cli", "send", "vm=h1-vm0,pe=0", "--daemon", daemon.url]
        process = await asyncio.create_subprocess_exec(
            *program, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        await until(lambda: any(verb == "send" for verb, _ in daemon.asked), daemon)
        process.send_signal(signal.SIGINT)
        err = await process.stderr.read()
        assert (await process.wait(), err) == (0, b"")
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_a_closed_pipe_ends_a_tail_quietly(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        reading, writing = os.pipe()
        process = await started("tail", "fn=stdio", "--daemon", daemon.url, out=writing)
        os.close(writing)
        await until(lambda: any(verb == "subscribe" for verb, _ in daemon.asked), daemon)
        os.close(reading)
        await until(lambda: process.returncode is not None, daemon)
        assert process.stderr is not None
        assert (process.returncode, await process.stderr.read()) == (0, b"")

    with_daemon(tmp_path, test)


def test_typed_lines_and_the_end_of_input_reach_the_kernel(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        program = [sys.executable, "-m", "control_center.cli", "send", "vm=h1-vm0,pe=1", "--for", "0.2"]
        process = await asyncio.create_subprocess_exec(
            *program, "--daemon", daemon.url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(b"first\nsecond\n")
        await until(lambda: len(daemon.host.sent) == 2, daemon)
        process.stdin.close()
        await until(lambda: process.returncode is not None, daemon)
        assert process.stdout is not None
        assert b"you said: first" in await process.stdout.read()
        assert [sent["data"] for sent in daemon.host.sent] == [b"first\n", b"second\n", b""]
        assert daemon.host.sent[-1]["eof"]
        assert process.returncode == 0

    with_daemon(tmp_path, test)
