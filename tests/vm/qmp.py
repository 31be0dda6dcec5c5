"""A small client of QEMU's control protocol (QMP): one connection, one thread, requests one after the other."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Self


class QmpError(Exception):
    """QEMU refused a command, or went away."""


class Qmp:
    """QMP over a connected socket, which it owns from now on.

    Events that arrive between requests are kept until `wait_for` asks for them.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rwb")
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def greet(self) -> None:
        """Read QEMU's greeting and leave negotiation mode: before this, no other command works.

        :raise QmpError: when QEMU ends instead; it has written the reason to its own stderr.
        """
        self._receive()
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run `command` and return its result.

        :raise QmpError: when QEMU answers with an error or closes the connection.
        """
        request = {"execute": command, "arguments": {k.replace("_", "-"): v for k, v in arguments.items()}}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        while True:
            message = self._receive()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise QmpError(f"{command}: {message['error']['desc']}")
            self._events.append(message)

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the next event of that name that was not returned before.

        :raise QmpError: when QEMU closes the connection first.
        """
        while True:
            for message in self._events:
                if message["event"] == event:
                    self._events.remove(message)
                    return message
            self._events.append(self._receive())

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the file object still holds data that a dead QEMU cannot take
            self._stream.close()
        self._connection.close()

    def _receive(self) -> dict[str, Any]:
        line = self._stream.readline()
        if not line:
            raise QmpError("QEMU closed its control connection")
        message: dict[str, Any] = json.loads(line)
        return message
