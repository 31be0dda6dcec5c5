"""Number of a worker below its launcher, whatever the guest calls its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.waiting import until
from vhost_backend.daemon.process import worker_of

_NAMED: Final = "import ctypes, sys; ctypes.CDLL(None).prctl(15, {name!r}); print(flush=True); sys.stdin.read()"
_LAUNCHER: Final = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("name", [b"vgc-worker", b"vgc-init", b"\xff\xfe"])
def test_worker_is_its_launcher_s_child_by_any_name(name: bytes) -> None:
    argv = [sys.executable, "-c", _LAUNCHER, _NAMED.format(name=name)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        (child,) = children(launcher.pid)
        assert worker_of(launcher.pid) == child


def test_first_process_of_a_pid_namespace_is_no_worker() -> None:
    argv = ["unshare", "--user", "--pid", "--fork", "cat"]
    if subprocess.run([*argv[:-1], "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this host gives no PID namespaces")
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as launcher:
        until(lambda: children(launcher.pid))
        assert worker_of(launcher.pid) == launcher.pid
