"""Asynchronous client of a daemon's control API, for tests: one request at a time, pushes on demand."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.control import frames
from virtio_proto.control.frames import Frame

TIMEOUT_S: Final = ANSWERS_WITHIN_S


class ApiRefusedError(Exception):
    """The daemon answered with an error."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}")


class Client:
    """A connection to the control API; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.pushes: deque[Frame] = deque()
        self._ids = itertools.count(1)

    @classmethod
    async def connect(cls, path: Path) -> Client:
        return cls(*await asyncio.open_unix_connection(path))

    async def ask(self, verb: str, **fields: Any) -> Any:
        """Sends a request, waits, and returns the daemon's answer.

        :raise ApiRefusedError: the daemon refuses.
        """
        number = next(self._ids)
        self.send({"id": number, "do": verb, "with": fields})
        while (frame := await self.read()).get("id") != number:
            self.pushes.append(frame)
        if "error" in frame:
            raise ApiRefusedError(frame["error"]["kind"], frame["error"]["text"])
        return frame["ok"]

    def send(self, frame: Frame) -> None:
        self.writer.write(frames.encode(frame))

    async def read(self) -> Frame:
        async with asyncio.timeout(TIMEOUT_S):
            frame = await frames.read(self.reader)
        if frame is None:
            raise EOFError("the daemon hung up")
        return frame

    async def push(self, kind: str, condition: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """Returns the next push of this kind for which `condition` holds; pushes before it are dropped."""
        while True:
            frame = self.pushes.popleft() if self.pushes else await self.read()
            if frame.get("push") == kind and condition(frame):
                return frame

    async def event(self, name: str) -> Frame:
        return await self.push("event", lambda frame: frame["event"] == name)

    async def refusal(self, verb: str, **fields: Any) -> ApiRefusedError:
        """Sends a request that must be refused, and returns the error."""
        with pytest.raises(ApiRefusedError) as caught:
            await self.ask(verb, **fields)
        return caught.value
