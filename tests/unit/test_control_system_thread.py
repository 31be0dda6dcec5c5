"""The control system's thread in a worker: its answers after an internal error."""

from __future__ import annotations

import os
import queue
from typing import Any, cast

import pytest

from tests.limits import ANSWERS_WITHIN_S
from vhost_backend.worker.channels.thread import ControlSystem
from vhost_backend.worker_protocol.control_messages import ControlClose


class NoChannels:
    """A driver with nothing open."""

    num_open = 0


class Breaking:
    """Commands that raise an unexpected exception."""

    waiting = False

    def execute(self, _message: object, _fds: object) -> None:
        raise ZeroDivisionError("a bug")


def test_every_command_is_answered_when_the_control_system_breaks() -> None:
    answers: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()

    def ack(seq: int, error: str = "", *, again: bool = False) -> None:
        assert not again
        answers.put((seq, error))

    system = ControlSystem(cast("Any", NoChannels()), cast("Any", None), cast("Any", Breaking()), 0, ack)
    system.start()
    fds = os.pipe()
    system.submit(ControlClose(1, ()), fds[:1])
    system.submit(ControlClose(2, ()), fds[1:])
    for seq in (1, 2):
        number, error = answers.get(timeout=ANSWERS_WITHIN_S)
        assert number == seq
        assert "control system failed: ZeroDivisionError" in error
    system.stop()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
