"""Blocking client of a daemon's control API, for tests and benchmarks without an event loop."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.control import frames
from virtio_proto.control.api import API_VERSION, MigrationInfo
from virtio_proto.control.frames import Frame

TIMEOUT_S: Final = ANSWERS_WITHIN_S


class ControlRefusedError(Exception):
    """The daemon answered with an error."""


class ControlCaller:
    """A connection, past its ``hello``. A context manager."""

    def __init__(self, path: Path, token: str | None = None) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(TIMEOUT_S)
        self._numbers = itertools.count(1)
        self._pushes: list[Frame] = []
        try:
            self._sock.connect(str(path))
            self.ask("hello", version=API_VERSION, **({} if token is None else {"token": token}))
        except BaseException:
            self._sock.close()
            raise

    def ask(self, verb: str, **fields: Any) -> Any:
        """Sends a request, waits, and returns the daemon's answer.

        :raise ControlRefusedError: the daemon refuses.
        """
        number = next(self._numbers)
        self._sock.sendall(frames.encode({"id": number, "do": verb, "with": fields}))
        while (frame := self._read()).get("id") != number:
            self._pushes.append(frame)
        if "error" in frame:
            raise ControlRefusedError(str(frame["error"]))
        return frame["ok"]

    def push(self, condition: Callable[[Frame], bool]) -> Frame:
        """Returns the next push for which `condition` holds; other pushes are kept for later calls."""
        for index, frame in enumerate(self._pushes):
            if condition(frame):
                return self._pushes.pop(index)
        while not condition(frame := self._read()):
            self._pushes.append(frame)
        return frame

    def event(self, name: str) -> Frame:
        """Returns the next event of this name; events must be subscribed to."""
        return self.push(lambda frame: frame.get("push") == "event" and frame["event"] == name)

    def migrate(self, vm: str, pes: int) -> MigrationInfo:
        """Migrates a VM's work to `pes` elements; returns the report, once the migration has ended."""
        self.ask("subscribe", events=True)
        number = self.ask("migrate", vm=vm, pes="0" if pes == 1 else f"0-{pes - 1}")["migration"]

        def has_ended(frame: Frame) -> bool:
            detail = frame.get("detail", {})
            is_this = frame.get("event") == "migration" and detail["migration"] == number
            return is_this and detail["ended_ns"] is not None

        return cast("MigrationInfo", self.push(has_ended)["detail"])

    def _read(self) -> Frame:
        return frames.decode(self._exactly(int.from_bytes(self._exactly(4), "little")))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sock.recv(size - len(data))
            if not part:
                raise EOFError("the daemon hung up")
            data += part
        return data

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
