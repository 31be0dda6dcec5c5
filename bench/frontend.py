"""The least of a vhost-user frontend that brings a device's queues up, for our daemon and for QEMU's own backend
alike. It shares one memfd with the backend: the rings first, then room for requests.
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Self

REGION_GPA = 0x1_0000_0000
REGION_UVA = 0x7000_0000_0000

VERSION_1 = 1 << 32
PROTOCOL_FEATURES = 1 << 30
EVENT_IDX = 1 << 29
INDIRECT = 1 << 28

_VERSION = 1
_REPLY = 1 << 2
_HEADER = struct.Struct("<III")


class Message(IntEnum):
    """The messages that this frontend sends [vhost-user: Front-end message types]."""

    GET_FEATURES = 1
    SET_FEATURES = 2
    SET_OWNER = 3
    SET_MEM_TABLE = 5
    SET_VRING_NUM = 8
    SET_VRING_ADDR = 9
    SET_VRING_BASE = 10
    SET_VRING_KICK = 12
    SET_VRING_CALL = 13
    GET_PROTOCOL_FEATURES = 15
    SET_PROTOCOL_FEATURES = 16
    SET_VRING_ENABLE = 18


_PF_MQ = 1 << 0
_PF_CONFIG = 1 << 9


class HandshakeError(OSError):
    """The backend hung up or answered something else than what was asked."""


@dataclass(frozen=True, slots=True)
class Vring:
    """Where a ring of `num` entries lies in the region, and the eventfds that go with it."""

    num: int
    desc: int
    avail: int
    used: int
    kick_fd: int
    call_fd: int


def _connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to a backend that may still be starting.

    :raise OSError: when nobody listens on `path` within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return connection


class Frontend:
    """A connection to a backend and the region shared with it. Close it (or use `with`) to hang up."""

    def __init__(self, socket_path: Path, region_bytes: int, timeout_s: float = 10.0) -> None:
        with ExitStack() as undo:
            self.region_fd = os.memfd_create("bench-region", os.MFD_CLOEXEC)
            undo.callback(os.close, self.region_fd)
            os.ftruncate(self.region_fd, region_bytes)
            self.region = mmap.mmap(self.region_fd, region_bytes)
            self._socket = undo.enter_context(_connect(socket_path, timeout_s))
            self._resources = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._resources.close()

    def start(self, vrings: Sequence[Vring], driver_features: int = EVENT_IDX | INDIRECT) -> int:
        """Negotiates, shares the region and starts every ring; returns the acknowledged virtio features.

        :raise HandshakeError: when the backend does not go along.
        """
        self._send(Message.SET_OWNER)
        offered = self._ask(Message.GET_FEATURES)
        acked = offered & (VERSION_1 | PROTOCOL_FEATURES | driver_features)
        protocol = self._ask(Message.GET_PROTOCOL_FEATURES) & (_PF_MQ | _PF_CONFIG)
        self._send(Message.SET_PROTOCOL_FEATURES, struct.pack("<Q", protocol))
        self._send(Message.SET_FEATURES, struct.pack("<Q", acked))
        size = len(self.region)
        table = struct.pack("<IIQQQQ", 1, 0, REGION_GPA, size, REGION_UVA, 0)
        self._send(Message.SET_MEM_TABLE, table, self.region_fd)
        for index, vring in enumerate(vrings):
            self._start_vring(index, vring)
        self._ask(Message.GET_FEATURES)  # answered only when everything before it has been handled
        return acked

    def _start_vring(self, index: int, vring: Vring) -> None:
        state = struct.Struct("<II").pack
        addresses = (REGION_UVA + offset for offset in (vring.desc, vring.used, vring.avail))
        self._send(Message.SET_VRING_NUM, state(index, vring.num))
        self._send(Message.SET_VRING_BASE, state(index, 0))
        self._send(Message.SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, *addresses, 0))
        self._send(Message.SET_VRING_CALL, struct.pack("<Q", index), vring.call_fd)
        self._send(Message.SET_VRING_KICK, struct.pack("<Q", index), vring.kick_fd)
        self._send(Message.SET_VRING_ENABLE, state(index, 1))

    def _send(self, message: Message, payload: bytes = b"", fd: int | None = None) -> None:
        packet = _HEADER.pack(message, _VERSION, len(payload)) + payload
        fds = array.array("i", [] if fd is None else [fd])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else []
        self._socket.sendmsg([packet], ancillary)

    def _ask(self, message: Message) -> int:
        self._send(message)
        got, flags, size = _HEADER.unpack(self._receive(_HEADER.size))
        payload = self._receive(size)
        if got != message or not flags & _REPLY or size != 8:
            raise HandshakeError(f"asked {message.name}, was answered message {got} with {size} bytes")
        return int(struct.unpack("<Q", payload)[0])

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise HandshakeError("the backend closed the connection during the handshake")
            data += part
        return data
