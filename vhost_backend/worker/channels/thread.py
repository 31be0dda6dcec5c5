"""Control system of a worker: a thread that executes the daemon's commands and sends records to the daemon.

Each command of the daemon is a task in a queue, executed in order; between tasks the thread empties the links, ever
less often while they are empty. With no channel open it sleeps until the next command.
"""

from __future__ import annotations

import errno
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from vhost_backend.channels.driver import Driver, DriverError
from vhost_backend.engines.base import Engine
from vhost_backend.errors import EngineError
from vhost_backend.worker.channels.commands import Commands
from vhost_backend.worker.channels.record_pipe import RecordPipe
from vhost_backend.worker_protocol.codec import close_fds
from vhost_backend.worker_protocol.control_messages import ControlMessage, ControlSetup

SHORTEST_PERIOD_S: Final = 0.002
LONGEST_PERIOD_S: Final = 0.05
GOVERNOR_PERIOD_S: Final = 0.25
CHANGE_WAIT_S: Final = 0.5
"""Longest time that unloading a program waits until records that refer to its texts have been sent."""


class Ack(Protocol):
    """Acknowledges a command; called from any thread."""

    def __call__(self, seq: int, error: str = "", *, again: bool = False) -> None:
        """`error` is empty if the command was executed; `again`: the same command may succeed later."""


@dataclass(frozen=True, slots=True)
class _Task:
    run: Callable[[], None]
    refuse: Callable[[str], None]


class ControlSystem:
    """Owns a driver and its thread. `ack` is called by that thread."""

    def __init__(self, driver: Driver, pipe: RecordPipe, commands: Commands, budget_ppm: int, ack: Ack) -> None:
        self._driver = driver
        self._pipe = pipe
        self._commands = commands
        self._budget_ppm = budget_ppm
        self._ack = ack
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._period_s = LONGEST_PERIOD_S
        self._govern_at = 0.0
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="control-system", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the tasks that are queued: for tests, as a worker's ends with the process."""
        self._tasks.put(None)
        self._thread.join()

    def submit(self, message: ControlMessage, fds: Sequence[int] = ()) -> None:
        """Has a command executed and acknowledged; takes `fds` over."""

        def run() -> None:
            try:
                self._commands.execute(message, fds)
                error, again = "", False
            except DriverError as refused:
                error, again = str(refused), refused.number == errno.EAGAIN
            except Exception as failure:  # without an answer, the daemon would take the worker for lost
                self._ack(message.seq, _failed(failure))
                raise
            finally:
                close_fds(fds)
            self._ack(message.seq, error, again=again)

        def refuse(why: str) -> None:
            close_fds(fds)
            self._ack(message.seq, why)

        self._tasks.put(_Task(run, refuse))

    def start_over(self, done: Callable[[], None]) -> None:
        """Closes all channels, for another daemon, which knows none of them; then calls `done`, on the thread."""

        def run() -> None:
            self._commands.start_over()
            done()

        self._tasks.put(_Task(run, lambda _: done()))

    def programs_change(self) -> None:
        """Waits until records that refer to texts of loaded programs have been sent, at most `CHANGE_WAIT_S`.

        To be called before programs change: other texts may then lie at the same addresses.
        """
        if self._driver.num_open == 0:
            self._tasks.put(_Task(self._driver.forget, _nothing))
            return
        done = threading.Event()

        def run() -> None:
            self._pipe.records()
            self._driver.forget()
            done.set()

        self._tasks.put(_Task(run, lambda _: done.set()))
        done.wait(CHANGE_WAIT_S)

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception as error:  # noqa: BLE001  the VM loses its control system; its guest computes on
            self._failure = _failed(error)
            while (task := self._tasks.get()) is not None:
                task.refuse(self._failure)

    def _turn(self) -> bool:
        """Executes the next command, or empties the links if none comes in time; False when the thread must end."""
        try:
            task = self._tasks.get(timeout=self._wait_s())
        except queue.Empty:
            self._work()
            return True
        if task is None:
            return False
        task.run()
        self._period_s = SHORTEST_PERIOD_S
        return True

    def _wait_s(self) -> float | None:
        """Seconds until the links must be looked at; None: only a command can cause work."""
        if self._driver.num_open == 0 and not self._commands.waiting:
            return None
        due_ns = self._driver.due_ns()
        if due_ns is None:
            return self._period_s
        return min(self._period_s, max(0.0, (due_ns - time.monotonic_ns()) / 1e9))

    def _work(self) -> None:
        any_sent, _ = self._pipe.records()
        self._pipe.figures()
        self._pipe.device()
        self._commands.follow_up()
        self._govern()
        if any_sent:
            self._period_s = SHORTEST_PERIOD_S
        else:
            self._period_s = min(LONGEST_PERIOD_S, self._period_s * 1.5)

    def _govern(self) -> None:
        """Lets the governor adapt sampling to the budget."""
        now = time.monotonic()
        if self._budget_ppm == 0 or now < self._govern_at:
            return
        self._govern_at = now + GOVERNOR_PERIOD_S
        self._pipe.sampling(self._driver.govern(time.monotonic_ns(), self._budget_ppm))


def _failed(error: Exception) -> str:
    return f"the worker's control system failed: {error!r:.200}"


def _nothing(why: str) -> None:
    """Refuses a task for which no caller waits."""


class Attachment:
    """Parts of a control system that must exist before the engine starts: the area and the record socket.

    Takes the descriptors over. `sock` must have been made before the sandbox is entered.
    """

    def __init__(self, setup: ControlSetup, area_fd: int, sock: socket.socket) -> None:
        self._setup = setup
        self._area_fd = area_fd
        self._sock = sock
        self._driver: Driver | None = None
        self.problem = ""
        """Reason why the worker has no control system; empty if it has one."""

    def attach(self, engine: Engine) -> None:
        """Maps the area into the engine. A failure is kept in `problem`: the worker serves without a control system."""
        try:
            size, channels = self._setup.area_bytes, self._setup.channels
            self._driver = Driver(engine.handle, self._area_fd, size, engine.control_rows, channels)
        except DriverError as error:
            self.problem = str(error)
        finally:
            os.close(self._area_fd)

    def system(self, engine: Engine, ack: Ack) -> ControlSystem | None:
        """Returns the control system, or None if `attach` failed."""
        if self._driver is None:
            return None

        def load_firmware(slot: int, version: int, fd: int) -> None:
            try:
                engine.load_firmware(fd, os.fstat(fd).st_size, slot, version)
            except EngineError as error:
                raise DriverError(errno.EINVAL, str(error)) from error

        pipe = RecordPipe(self._sock, self._driver)
        commands = Commands(self._driver, pipe, load_firmware)
        return ControlSystem(self._driver, pipe, commands, self._setup.budget_ppm, ack)
