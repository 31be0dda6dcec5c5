"""Blocking client of a daemon's control API, for tests without an event loop."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.api_client import ApiRefusedError
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.control import frames, records
from virtio_proto.control.api import API_VERSION
from virtio_proto.control.frames import Frame
from virtio_proto.control.records import Record

TIMEOUT_S: Final = ANSWERS_WITHIN_S


class ApiCaller:
    """A connection, past its ``hello``, with events. A context manager."""

    def __init__(self, path: Path, token: str | None = None) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(TIMEOUT_S)
        self._sock.connect(str(path))
        self._stream = self._sock.makefile("rb")
        self._numbers = itertools.count(1)
        self._pushes: list[Frame] = []
        self.ask("hello", version=API_VERSION, **({} if token is None else {"token": token}))
        self.ask("subscribe", events=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._sock.close()

    def ask(self, verb: str, **fields: Any) -> Any:
        """Sends a request, waits, and returns the daemon's answer.

        :raise ApiRefusedError: the daemon refuses.
        """
        number = next(self._numbers)
        self._sock.sendall(frames.encode({"id": number, "do": verb, "with": fields}))
        while (frame := self._read()).get("id") != number:
            self._pushes.append(frame)
        if "error" in frame:
            raise ApiRefusedError(frame["error"]["kind"], frame["error"]["text"])
        return frame["ok"]

    def open(self, selector: str, **terms: Any) -> int:
        """Opens an instance, subscribes to its records and returns its number."""
        number = int(self.ask("open", selector=selector, **terms)["instance"])
        self.ask("subscribe", records=[number])
        return number

    def push(self, condition: Callable[[Frame], bool]) -> Frame:
        """Returns the next push for which `condition` holds; other pushes are kept for later calls."""
        for index, frame in enumerate(self._pushes):
            if condition(frame):
                return self._pushes.pop(index)
        while not condition(frame := self._read()):
            self._pushes.append(frame)
        return frame

    def left(self, instance: int) -> list[Frame]:
        """Pushes of an instance's records that were received and not returned by `push` yet."""
        return [frame for frame in self._pushes if frame["push"] == "records" and frame["instance"] == instance]

    def event(self, name: str) -> Frame:
        """Returns the next event of this name."""
        return self.push(lambda frame: frame["push"] == "event" and frame["event"] == name)

    def _read(self) -> Frame:
        head = self._stream.read(4)
        if len(head) < 4:
            raise EOFError("the daemon hung up")
        return frames.decode(self._stream.read(int.from_bytes(head, "little")))


class Reader:
    """Decodes an instance's records, in order, from all of its elements."""

    def __init__(self, caller: ApiCaller, instance: int) -> None:
        self._caller = caller
        self._instance = instance
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[Record, str]] = []
        self.vms: set[str] = set()

    def next(self) -> tuple[Record, str]:
        """The next record, with its text."""
        while not self._waiting:
            push = self._caller.push(lambda f: f["push"] == "records" and f["instance"] == self._instance)
            self.vms.add(push["vm"])
            self._names |= {int(address, 16): text for address, text in push["dictionary"].items()}
            self._waiting += [(item, records.describe(item, self._names)) for item in records.unpack(push["data"])]
        return self._waiting.pop(0)

    def texts(self, count: int) -> list[str]:
        """Texts of the next `count` records."""
        return [self.next()[1] for _ in range(count)]
