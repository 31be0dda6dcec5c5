"""examples/sandbox/run.py with another program in QEMU's place: however a job ends, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.test_added_vms import AddingHost, running
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from tools.common import REPOSITORY

pytestmark = needs_walls

RUN: Final = f"""
import runpy, sys, tools.machine, tools.frameworks
from pathlib import Path

class Qemu:
    def argv(self, arguments):
        return [sys.executable, "-c", "import os, signal; print(os.getpid(), flush=True); signal.pause()"]

tools.machine.machine = lambda **settings: Qemu()
tools.machine.disk = lambda image: []
tools.frameworks.disk = lambda: Path("none")
runpy.run_path({str(REPOSITORY / "examples/sandbox/run.py")!r}, run_name="__main__")
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AddingHost]:
    made = AddingHost(tmp_path)
    made.write({"a": {}})
    with running(made):
        yield made


@contextmanager
def example(host: AddingHost, *words: str) -> Iterator[subprocess.Popen[str]]:
    (host.folder / "job.py").touch()
    options = [f"--daemon=unix:{host.folder / 'control'}", *words, str(host.folder / "job.py")]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(host.folder)}
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *options],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def begun(process: subprocess.Popen[str]) -> int:
    """Waits until the job runs. Returns the number of QEMU's process."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def is_over(host: AddingHost, pid: int) -> None:
    assert not Path(f"/proc/{pid}").exists()
    until(lambda: host.origins() == {"a": "file"})
    assert not list(host.folder.glob("vgc-job-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_job(host: AddingHost, number: signal.Signals) -> None:
    """CI systems cancel jobs so."""
    with example(host) as process:
        pid = begun(process)
        assert f"job-{process.pid}" in host.origins()
        process.send_signal(number)
        process.communicate(timeout=ANSWERS_WITHIN_S)
        assert process.returncode in {128 + number, -number}
        is_over(host, pid)


def test_a_job_that_takes_too_long_is_ended(host: AddingHost) -> None:
    with example(host, "--timeout=0.5") as process:
        pid = begun(process)
        _, said = process.communicate(timeout=ANSWERS_WITHIN_S)
        assert process.returncode == 124
        assert "the job was ended after 0.5 s" in said
        is_over(host, pid)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    """By the command of docs/sandboxes.md, before anything is added."""
    job, missing = tmp_path / "job.py", tmp_path / "none"
    job.touch()
    for words, status, says in (
        (
            (f"--daemon=unix:{missing}", job),
            4,
            f"vgcctl: unix:{missing} cannot be reached: No such file or directory\n",
        ),
        ((f"--daemon=unix:{missing}", missing), 2, f"run.py: error: {missing}: no such file\n"),
        ((f"--daemon=unix:{missing}", "--timeout=0", job), 2, "0 seconds; allowed: more than 0\n"),
        ((f"--daemon=unix:{missing}", "--timeout=nan", job), 2, "nan seconds; allowed: more than 0\n"),
        ((job,), 2, "the following arguments are required: --daemon\n"),
    ):
        command = [sys.executable, "-m", "examples.sandbox.run", *words]
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=ANSWERS_WITHIN_S
        )
        assert (done.returncode, done.stderr.endswith(says)) == (status, True), done.stderr
        assert "Traceback" not in done.stderr
