"""The host's side of the test agent; `tools/guest/agent.py` is the other side and describes the messages."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

HELLO: Final = 0
"""Id of the message that an agent sends when it starts."""


class AgentError(Exception):
    """The guest's agent could not do what it was asked, or is gone."""


@dataclass(frozen=True, slots=True)
class Answer:
    header: dict[str, Any]
    body: bytes


class Agent:
    """Requests to the agent of a guest, from any thread, answered in any order."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")
        self._connection = connection
        self._ids = itertools.count(HELLO + 1)
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Answer]] = {}
        self.started = self.expect_start()
        self._reader = threading.Thread(target=self._read, name="agent-reader", daemon=True)
        self._reader.start()

    def expect_start(self) -> Future[Answer]:
        """A future that is done when an agent starts: call this before what makes the guest start again."""
        future: Future[Answer] = Future()
        with self._lock:
            self._pending[HELLO] = future
        return future

    def request(self, op: str, body: bytes = b"", **fields: Any) -> Future[Answer]:
        """Send a request; the future fails with `AgentError` when the agent could not do it or went away."""
        future: Future[Answer] = Future()
        with self._lock:
            number = next(self._ids)
            self._pending[number] = future
            header = {"id": number, "op": op, "size": len(body), **fields}
            self._stream.write(json.dumps(header).encode() + b"\n" + body)
            self._stream.flush()
        return future

    def close(self) -> None:
        """End the connection: what was pending fails."""
        with contextlib.suppress(OSError):  # QEMU may have closed its end already
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        with contextlib.suppress(OSError):
            self._stream.close()
        self._connection.close()

    def _read(self) -> None:
        try:
            while line := self._stream.readline():
                header = json.loads(line)
                self._resolve(Answer(header, self._stream.read(header["size"])))
        except (OSError, ValueError) as error:
            self._fail(f"the connection to the guest's agent broke: {error}")
        else:
            self._fail("QEMU has ended")

    def _resolve(self, answer: Answer) -> None:
        with self._lock:
            future = self._pending.pop(answer.header["id"], None)
        if future is None or future.done():
            return
        if "error" in answer.header:
            future.set_exception(AgentError(answer.header["error"]))
        else:
            future.set_result(answer)

    def _fail(self, reason: str) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(AgentError(reason))
