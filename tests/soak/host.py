"""The host of a soak: `vgcd` with its keeper, a control centre that records, and callers that survive takeovers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.control_caller import ControlCaller, ControlRefusedError
from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S

PROBED: Final = "a"
"""The VM of the configuration file, which is there all the time."""
HOST: Final = "h1"
"""Name of the host at the control centre."""
MAX_ERROR_CHARS: Final = 4000
"""Most characters of a daemon's error that is no event, from its end."""
AGAIN_S: Final = 0.05
"""Time between two attempts to reach a daemon."""


def _start(*argv: str, **options: Any) -> subprocess.Popen[str]:
    """Starts a Python module in a session of its own, which Ctrl-C at the terminal does not reach."""
    return subprocess.Popen(
        [sys.executable, "-m", *argv],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        start_new_session=True,
        **options,
    )


class SoakHost:
    """Processes of a host, and what their log says. Ends all of them with its block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.control = folder / "control"
        self.events: Counter[str] = Counter()
        """Number of events of the daemons' logs, by name."""
        self.errors: list[str] = []
        """Events of the level `error` or worse, and lines that are no events."""
        self._is_told = False
        """True while lines belong to the last of the errors."""
        self._workers: dict[str, int] = {}
        self._daemon = self._spare = 0
        self._said = threading.Condition()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start_vgcd(stack)
            self._start_centre(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start_vgcd(self, stack: ExitStack) -> None:
        config = self.folder / "vgcd.yaml"
        config.write_text(
            f"vms:\n  {PROBED}: {{socket: {self.folder}/{PROBED}, engine: cpu, num_queues: 2,"
            " quota: {pes: 2, memory: 64M}}\n"
            f"cache: {self.folder}/cache\nstate: {self.folder}/state\nlog: {{format: json}}\n"
            f"control: {{socket: {self.control}, budget_percent: 100.0}}\novercommit: true\n"
        )
        self.keeper = _start("vhost_backend.entry", "run", "--config", str(config), stderr=subprocess.PIPE)
        assert self.keeper.stderr is not None
        stack.callback(self.keeper.stderr.close)
        reader = threading.Thread(target=self._read, name="log", daemon=True)
        reader.start()
        stack.callback(reader.join, ANSWERS_WITHIN_S)
        stack.callback(_end, self.keeper)
        self.wait_served(0)

    def _start_centre(self, stack: ExitStack) -> None:
        self.centre = _start(
            "control_center.server",
            *("--host", f"{HOST}=unix:{self.control}", "--listen", "127.0.0.1:0"),
            *("--record", f"sqlite:///{self.folder}/recording.db"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.centre.stdout is not None
        stack.callback(self.centre.stdout.close)
        stack.callback(_end, self.centre)
        self._url = self.centre.stdout.readline().strip().rpartition(" ")[2].rstrip("/")
        if not self._url.startswith("http"):
            raise RuntimeError("the control centre did not start; see `python -m control_center.server --doctor`")

    def _read(self) -> None:
        assert self.keeper.stderr is not None
        for line in self.keeper.stderr:
            with self._said:
                self._hear(line)
                self._said.notify_all()

    def _hear(self, line: str) -> None:
        if not line.startswith("{"):
            self.events["keeper's line"] += 1
            if line.startswith(("Traceback", "Fatal", "==")):
                self.errors.append(line.strip())
                self._is_told = True
            elif self._is_told:  # frames, and the error itself
                self.errors[-1] = f"{self.errors[-1]} | {line.strip()}"[-MAX_ERROR_CHARS:]
            return
        self._is_told = False
        event: dict[str, Any] = json.loads(line)
        name = event["event"]
        self.events[name] += 1
        match name:
            case "serving":
                self._daemon = event["pid"]
            case "spare_ready":
                self._spare = event["pid"]
            case "worker_started":
                self._workers[event["vm"]] = event["pid"]
            case _:
                if event.get("level") in {"error", "critical"}:
                    self.errors.append(line.strip())

    # ---- processes -------------------------------------------------------------------------------

    @property
    def daemon(self) -> int:
        """Process of the daemon that serves."""
        return self._daemon

    @property
    def spare(self) -> int:
        """Process of the spare; 0: none waits."""
        return self._spare if self._spare != self._daemon else 0

    def worker(self, vm: str) -> int | None:
        """Launcher of a VM's present worker."""
        with self._said:
            return self._workers.get(vm)

    def forget(self, vm: str) -> None:
        """Forgets a VM that has left."""
        with self._said:
            self._workers.pop(vm, None)

    def wait_served(self, before: int) -> None:
        """Waits until a daemon other than the process `before` serves."""
        with self._said:
            if not self._said.wait_for(lambda: self._daemon not in {0, before}, ANSWERS_WITHIN_S):
                raise TimeoutError(f"no daemon serves after {ANSWERS_WITHIN_S} s: {self.errors[-3:]}")

    def wait_spare(self) -> None:
        """Waits until a spare is ready."""
        with self._said:
            if not self._said.wait_for(lambda: self.spare, ANSWERS_WITHIN_S):
                raise TimeoutError(f"no spare is ready after {ANSWERS_WITHIN_S} s")

    # ---- the centre ------------------------------------------------------------------------------

    def ask_centre(self, path: str) -> Any:
        """Answer of the centre's REST API, such as of ``accounts``.

        :raise OSError: it does not answer.
        """
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=ANSWERS_WITHIN_S) as answer:
            return json.load(answer)

    def scrape(self) -> int:
        """Reads /metrics as Prometheus does; returns its size in bytes."""
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=ANSWERS_WITHIN_S) as answer:
            return len(answer.read())


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process as an operator does, or kills it if that takes too long."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(ANSWERS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Operator:
    """Client of the control API of whichever daemon serves. One thread at a time uses it. A context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._caller: ControlCaller | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    def drop(self) -> None:
        """Closes the connection, and with it what the daemon holds for it."""
        if self._caller is not None:
            self._caller.close()
            self._caller = None

    def ask(self, verb: str, **fields: Any) -> Any:
        """Asks once more whenever the daemon is replaced before it has answered.

        :raise ControlRefusedError: the daemon refuses.
        :raise TimeoutError: no daemon answers.
        """
        end = time.monotonic() + ANSWERS_WITHIN_S
        while True:
            try:
                if self._caller is None:
                    self._caller = ControlCaller(self._path)
                return self._caller.ask(verb, **fields)
            except TimeoutError:
                raise
            except (OSError, EOFError):
                self.drop()
                if time.monotonic() > end:
                    raise TimeoutError(f"no daemon answers {verb!r} within {ANSWERS_WITHIN_S} s") from None
                time.sleep(AGAIN_S)

    def vms(self) -> set[str]:
        """Names of the VMs that are served."""
        return {vm["vm"] for vm in self.ask("topology")["vms"]}

    def add(self, vm: str, **settings: Any) -> None:
        """Adds a VM. If the daemon was replaced on the way, the VM may be there already."""
        try:
            self.ask("add_vm", vm=vm, **settings)
        except ControlRefusedError:
            if vm not in self.vms():
                raise

    def remove(self, vm: str) -> None:
        """Removes a VM. If the daemon was replaced on the way, the VM may have gone already."""
        try:
            self.ask("remove_vm", vm=vm)
        except ControlRefusedError:
            if vm in self.vms():
                raise
