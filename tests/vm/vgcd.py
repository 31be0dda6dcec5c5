"""The real daemon, for tests with real guests: started on a configuration made here, stopped with the test.

with Vgcd(VmSettings("one")) as vgcd, Guest(vgcd.device("one")) as guest:
    guest.run("vgc info")
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from tests.limits import ANSWERS_WITHIN_S
from tests.processes import launchers
from tests.vm.harness import LOG_TAIL_LINES
from tests.waiting import until
from tools.common import REPOSITORY
from tools.machine import Device

STOP_SECONDS: Final = ANSWERS_WITHIN_S
FIRST_LISTEN_FD: Final = 3
"""Number of the first activated socket, by socket activation's convention."""

ACTIVATE: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: no daemon outlives tests that are killed
first, count = int(sys.argv[1]), int(sys.argv[2])
for number in range(count):
    os.dup2(int(sys.argv[3 + number]), first + number)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[3 + count], sys.argv[3 + count:])
"""
"""Python program that becomes the daemon, with its sockets at the right descriptors and LISTEN_PID set."""

BUG_EVENTS: Final = ("wrong_transition", "loop_error")
"""Events in the log that a correct daemon never logs; it goes on after them."""


class VgcdError(Exception):
    """The daemon ended when it should not have, or did not end when it should."""


@dataclass(frozen=True, slots=True)
class VmSettings:
    """A VM as the daemon is to offer it; `extra` are further keys of its section in the configuration."""

    name: str
    region_bytes: int = 64 << 20
    num_queues: int = 4
    extra: dict[str, Any] = field(default_factory=dict)

    def section(self, folder: Path) -> dict[str, Any]:
        own = {"socket": str(folder / f"{self.name}.sock"), "region": self.region_bytes, "num_queues": self.num_queues}
        return own | self.extra


class Vgcd:
    """A daemon for any number of VMs. Its sockets listen before it runs, so a guest may start at once."""

    def __init__(self, *vms: VmSettings, log_level: str = "info", kept: bool = False) -> None:
        """`kept`: it runs with its keeper, and `kill_daemon` may be called."""
        self._module = "vhost_backend.entry" if kept else "vhost_backend.cli"
        self._vms = {vm.name: vm for vm in vms}
        self._log_level = log_level
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vgcd-")))
        config = self.folder / "vgcd.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        with ExitStack() as handed:
            listeners = [self._listen(vm, handed) for vm in self._vms]
            log = handed.enter_context((self.folder / "vgcd.log").open("wb"))
            self.process = subprocess.Popen(
                self._argv(config, listeners),
                env=os.environ | {"LISTEN_FDS": str(len(listeners)), "LISTEN_FDNAMES": ":".join(self._vms)},
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stderr=log,
                pass_fds=listeners,
            )
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with self._stack:
            try:
                self._stop()
            except VgcdError as stopping:
                stopping.add_note(self.log_tail())
                if error is None:
                    raise
                error.add_note(str(stopping))
            if error is not None:
                error.add_note(self.log_tail())

    def device(self, name: str) -> Device:
        """The device of VM `name`, for `Guest`."""
        vm = self._vms[name]
        return Device(self.folder / f"{name}.sock", region_bytes=vm.region_bytes, num_queues=vm.num_queues)

    @property
    def control_socket(self) -> Path:
        """Path of the control socket."""
        return self.folder / "control.sock"

    def worker_pids(self) -> list[int]:
        """Ids of the launchers of the daemon's workers."""
        return launchers(self.process.pid)

    def kill_daemon(self) -> None:
        """Kills the daemon under its keeper once a spare waits; returns when the spare has taken over."""
        pids = self._serving()
        until(lambda: self._count("spare_ready") >= len(pids))
        os.kill(pids[-1], signal.SIGKILL)
        until(lambda: self._count("frontend_taken_over") >= len(pids))

    def _serving(self) -> list[int]:
        """Ids of all daemons that have served so far; the last one serves."""
        return [int(pid) for pid in re.findall(r"serving\b.*\bpid=(\d+)", self._log())]

    def _count(self, event: str) -> int:
        return self._log().count(event)

    def _log(self) -> str:
        return (self.folder / "vgcd.log").read_text(errors="replace")

    def log_tail(self) -> str:
        """The end of the daemon's log, for people."""
        lines = (self.folder / "vgcd.log").read_text(errors="replace").splitlines()
        return "\n    ".join(["vgcd, last lines of its log:", *lines[-LOG_TAIL_LINES:]])

    def _config(self) -> dict[str, Any]:
        return {
            "log": {"level": self._log_level},
            "cache": str(self.folder / "cache"),
            "state": str(self.folder / "state"),
            "control": {"socket": str(self.control_socket)},
            "overcommit": True,  # guests are to see several elements on machines that have two cores
            "vms": {name: vm.section(self.folder) for name, vm in self._vms.items()},
        }

    def _listen(self, name: str, handed: ExitStack) -> int:
        listener = handed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(str(self.folder / f"{name}.sock"))
        listener.listen()
        return listener.fileno()

    def _argv(self, config: Path, listeners: list[int]) -> list[str]:
        handed = [str(number) for number in (FIRST_LISTEN_FD, len(listeners), *listeners)]
        daemon = [sys.executable, "-m", self._module, "run", "--config", str(config)]
        return [sys.executable, "-c", ACTIVATE, *handed, *daemon]

    def _stop(self) -> None:
        """Sends SIGTERM, as a service manager does, and waits for the end.

        :raise VgcdError: when the daemon had ended already, does not end, or ends with an error.
        """
        if self.process.poll() is not None:
            raise VgcdError(f"vgcd ended by itself with {self.process.returncode}")
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise VgcdError(f"vgcd did not end within {STOP_SECONDS} s of SIGTERM") from None
        if code != 0:
            raise VgcdError(f"vgcd ended with {code} on SIGTERM")
        log = (self.folder / "vgcd.log").read_text(errors="replace").splitlines()
        if bugs := [line for line in log if any(event in line for event in BUG_EVENTS)]:
            raise VgcdError("\n".join(["vgcd met bugs of its own:", *bugs]))
