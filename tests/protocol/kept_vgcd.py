"""A `vgcd` with its keeper, as it runs on a host: a process tree of which parts are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S
from tests.waiting import until

VGCD = (sys.executable, "-m", "vhost_backend.entry")


class KeptVgcd:
    """The processes, and what they say. `keeper` is the one that was started."""

    def __init__(
        self, config: Path, program: Sequence[str] = VGCD, environment: Mapping[str, str] | None = None
    ) -> None:
        self.keeper = subprocess.Popen(
            [*program, "run", "--config", str(config)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        )
        self.events: list[dict[str, Any]] = []
        """Events of all daemons, and lines of the keeper's as {"event": "keeper", "text": line}."""
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="vgcd's log")
        self._reader.start()

    def _read(self) -> None:
        assert self.keeper.stderr is not None
        for line in self.keeper.stderr:
            is_event = line.startswith("{")
            with self._said:
                self.events.append(json.loads(line) if is_event else {"event": "keeper", "text": line.strip()})
                self._said.notify_all()

    def wait_for(self, event: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """Waits until an event was logged `count` times with these fields; returns the last of them."""

        def found() -> list[dict[str, Any]]:
            return [
                one
                for one in self.events
                if one["event"] == event and all(one.get(name) == value for name, value in fields.items())
            ]

        with self._said:
            assert self._said.wait_for(lambda: len(found()) >= count, ANSWERS_WITHIN_S), (
                f"no {event}: {self.events[-20:]}"
            )
            return found()[count - 1]

    def count(self, event: str) -> int:
        with self._said:
            return sum(one["event"] == event for one in self.events)

    @property
    def daemon(self) -> int:
        """Process of the daemon that serves."""
        return int(self.wait_for("serving", self.count("serving") or 1)["pid"])

    def kill_daemon(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kills the daemon as soon as a spare waits."""
        serving = self.count("serving")
        self.wait_for("spare_ready", serving)
        os.kill(self.daemon, number)

    def wait_for_takeovers(self, count: int) -> None:
        """Waits until a VM's frontend was taken over so often."""
        self.wait_for("frontend_taken_over", count)

    def end(self) -> int:
        """Ends all of it as an operator does; returns the exit code."""
        self.keeper.terminate()
        return self.keeper.wait(ANSWERS_WITHIN_S)

    def close(self) -> None:
        if self.keeper.poll() is None:
            self.keeper.kill()
        self.keeper.wait(ANSWERS_WITHIN_S)
        self._reader.join(ANSWERS_WITHIN_S)
        assert not self._reader.is_alive(), "a process of the service has outlived the keeper"
        if self.keeper.stderr is not None:
            self.keeper.stderr.close()


@contextmanager
def kept_vgcd(
    folder: Path,
    vms: str = "",
    *,
    engine: str = "cpu",
    more: str = "",
    program: Sequence[str] = VGCD,
    environment: Mapping[str, str] | None = None,
) -> Iterator[KeptVgcd]:
    """Runs `vgcd` with the VM "a", and those in `vms`, lines of YAML; `more`: further sections."""
    config = folder / "vgcd.yaml"
    config.write_text(
        f"vms:\n  a: {{socket: {folder}/a, engine: {engine}, num_queues: 4, quota: {{pes: 2, memory: 64M}}, deadline: 500s}}\n"
        f"{vms}cache: {folder}/cache\nstate: {folder}/state\nlog: {{format: json}}\n{more}"
    )
    vgcd = KeptVgcd(config, program, environment)
    try:
        vgcd.wait_for("serving")
        yield vgcd
    finally:
        vgcd.close()
        assert not any(one["event"] == "loop_error" for one in vgcd.events)


def gone(pid: int) -> bool:
    """True if a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_gone(pid: int) -> None:
    until(lambda: gone(pid))
