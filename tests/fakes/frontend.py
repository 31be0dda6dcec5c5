"""Fake vhost-user frontend: sends the messages of QEMU 11.1's generic device, in its order.

Blocking, with a time-out on every wait, so that a backend that hangs fails a test and does not hang it. Messages that
QEMU would never send can be sent with `send` and `send_raw`.
"""

from __future__ import annotations

import array
import os
import select
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.limits import ANSWERS_WITHIN_S
from tests.waiting import until
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import (
    FLAG_NEED_REPLY,
    FLAG_REPLY,
    HEADER_BYTES,
    OFFERED_FEATURES,
    OFFERED_PROTOCOL_FEATURES,
    VRING_NO_FD,
    Gpa,
    Region,
    Request,
    Uva,
)
from virtio_proto import schema
from virtio_proto.schema import Health

TIMEOUT_S: Final = ANSWERS_WITHIN_S
"""Limit of each wait: far beyond what any test waits for, so that only a backend that hangs reaches it."""


class BackendGone(Exception):  # noqa: N818  a state of the connection, not a fault of the caller
    """The backend closed the connection."""


@dataclass(frozen=True, slots=True)
class Reply:
    request: int
    flags: int
    payload: bytes

    @property
    def u64(self) -> int:
        return int.from_bytes(self.payload, "little")


@dataclass(frozen=True, slots=True)
class RingSetup:
    """Ring as configured by a driver. The descriptors stay the caller's; None: no descriptor."""

    index: int
    size: int
    desc: int
    avail: int
    used: int
    kick_fd: int | None
    call_fd: int | None
    base: int = 0


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A region and the descriptor of its file, which stays the caller's."""

    fd: int
    size: int
    gpa: int
    uva: int
    offset: int = 0

    def as_region(self) -> Region:
        return Region(Gpa(self.gpa), self.size, Uva(self.uva), self.offset)


class FakeFrontend:
    """A connection to a backend; owns `sock` and its own err eventfds."""

    def __init__(self, sock: socket.socket, num_queues: int = 4) -> None:
        sock.settimeout(TIMEOUT_S)
        self.sock = sock
        self.num_queues = num_queues
        self.features = 0
        self.protocol_features = 0
        self.max_mem_slots = 0
        self.err_fds: list[int] = []
        self._default_calls: list[int] = []
        self.backend_channel: socket.socket | None = None

    @classmethod
    def connect(cls, path: Path, num_queues: int = 4) -> Self:
        """Connects to a backend that listens at `path`.

        :raise OSError: no backend listens there.
        """
        with ExitStack() as undo:
            sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sock.settimeout(TIMEOUT_S)
            sock.connect(os.fsencode(path))
            undo.pop_all()
        return cls(sock, num_queues)

    def close(self) -> None:
        """Hangs up; does nothing the second time."""
        self.sock.close()
        if self.backend_channel is not None:
            self.backend_channel.close()
            self.backend_channel = None
        for fd in (*self.err_fds, *self._default_calls):
            os.close(fd)
        self.err_fds, self._default_calls = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- messages --------------------------------------------------------------------------------

    def send_raw(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Sends any bytes at all, with any descriptors."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            sent = self.sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            if sent < len(data):
                self.sock.sendall(data[sent:])
        except ConnectionError as error:
            raise BackendGone(str(error)) from error

    def send(self, request: int, payload: bytes = b"", fds: Sequence[int] = (), flags: int = 0) -> None:
        self.send_raw(messages.build(request, payload, flags), fds)

    def receive(self) -> Reply:
        """Returns the next reply.

        :raise BackendGone: the connection is closed.
        :raise TimeoutError: the backend does not reply.
        """
        header = self._read(HEADER_BYTES)
        request, flags, size = (int.from_bytes(header[at : at + 4], "little") for at in (0, 4, 8))
        return Reply(request, flags, self._read(size))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.sock.recv(size - len(data))
            except ConnectionError as error:
                raise BackendGone(str(error)) from error
            if not part:
                raise BackendGone("end of file")
            data += part
        return data

    def call(self, request: Request, payload: bytes = b"") -> bytes:
        """Sends a request that is answered with a payload of its own; returns the payload."""
        self.send(request, payload)
        reply = self.receive()
        assert reply.request == request, f"{request.name} was answered with {reply}"
        assert reply.flags == messages.VERSION | FLAG_REPLY, f"flags {reply.flags:#x}"
        return reply.payload

    def acked(self, request: Request, payload: bytes = b"", fds: Sequence[int] = ()) -> int:
        """Sends a request with need_reply; returns the status, 0 for success."""
        self.send(request, payload, fds, FLAG_NEED_REPLY)
        reply = self.receive()
        assert reply.request == request, f"{request.name} was answered with {reply}"
        return reply.u64

    def must(self, request: Request, payload: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Sends as `acked` does; the status must be success."""
        status = self.acked(request, payload, fds)
        assert status == 0, f"{request.name} was refused with {status}"

    def synchronise(self) -> None:
        """Waits until the backend has handled all messages sent so far."""
        self.call(Request.GET_FEATURES)

    def finish(self) -> int:
        """Ends the sending side, and returns when the backend has handled everything and hung up.

        Returns the number of bytes that the backend still sent.
        """
        unread = 0
        try:
            self.sock.shutdown(socket.SHUT_WR)
            while part := self.sock.recv(1 << 16):
                unread += len(part)
        except ConnectionError:
            pass
        return unread

    def is_dropped(self) -> bool:
        """Waits until the backend sends a message or hangs up; True if it hung up."""
        try:
            self.receive()
        except BackendGone:
            return True
        return False

    # ---- QEMU's sequences ------------------------------------------------------------------------

    def negotiate(self, features: int = OFFERED_FEATURES, protocol: int = OFFERED_PROTOCOL_FEATURES) -> None:
        """Does what QEMU does from the connection to the point where it waits for the guest."""
        self.features = int.from_bytes(self.call(Request.GET_FEATURES), "little") & features
        offered = int.from_bytes(self.call(Request.GET_PROTOCOL_FEATURES), "little")
        self.protocol_features = offered & protocol
        self.send(Request.SET_PROTOCOL_FEATURES, messages.u64(self.protocol_features))
        most = int.from_bytes(self.call(Request.GET_QUEUE_NUM), "little")
        assert self.num_queues <= most, f"the backend supports {most} queues"
        self.max_mem_slots = int.from_bytes(self.call(Request.GET_MAX_MEM_SLOTS), "little")
        self._give_backend_channel()
        self.send(Request.SET_OWNER)
        self.call(Request.GET_FEATURES)
        for index in range(self.num_queues):
            self._default_calls.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            self.err_fds.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            self.set_event(Request.SET_VRING_CALL, index, self._default_calls[index])
            self.set_event(Request.SET_VRING_ERR, index, self.err_fds[index])

    def _give_backend_channel(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self.must(Request.SET_BACKEND_REQ_FD, fds=[theirs.fileno()])
        ours.settimeout(TIMEOUT_S)
        self.backend_channel = ours

    def set_event(self, request: Request, index: int, fd: int | None) -> None:
        """Sends SET_VRING_KICK, CALL or ERR, with or without a descriptor."""
        value = index if fd is not None else index | VRING_NO_FD
        self.must(request, messages.u64(value), [] if fd is None else [fd])

    def set_memory(self, files: Iterable[SharedFile]) -> None:
        """Sends all regions in SET_MEM_TABLE, as QEMU does where memory slots are not offered."""
        files = list(files)
        table = messages.mem_table(tuple(file.as_region() for file in files))
        self.must(Request.SET_MEM_TABLE, table, [file.fd for file in files])

    def add_memory(self, file: SharedFile) -> None:
        self.must(Request.ADD_MEM_REG, messages.mem_reg(file.as_region()), [file.fd])

    def remove_memory(self, file: SharedFile) -> None:
        self.must(Request.REM_MEM_REG, messages.mem_reg(file.as_region()))

    def set_up(self, ring: RingSetup) -> None:
        """Sends all messages of one ring but SET_VRING_ENABLE; the kick descriptor starts the ring."""
        self.send(Request.SET_VRING_NUM, messages.vring_state(ring.index, ring.size))
        self.send(Request.SET_VRING_BASE, messages.vring_state(ring.index, ring.base))
        address = messages.vring_addr(ring.index, ring.desc, ring.used, ring.avail)
        self.send(Request.SET_VRING_ADDR, address)
        self.set_event(Request.SET_VRING_KICK, ring.index, ring.kick_fd)
        self.set_event(Request.SET_VRING_CALL, ring.index, ring.call_fd)

    def enable(self, index: int, enabled: bool = True) -> None:
        self.must(Request.SET_VRING_ENABLE, messages.vring_state(index, int(enabled)))

    def start(self, rings: Sequence[RingSetup], files: Iterable[SharedFile] = ()) -> None:
        """Acts as QEMU at DRIVER_OK: features, memory, the driver's rings, *all* queues enabled, then calls swapped."""
        self.send(Request.SET_FEATURES, messages.u64(self.features))
        for file in files:
            self.add_memory(file)
        for ring in rings:
            self.set_up(ring)
        for index in range(self.num_queues):
            self.enable(index)
        for ring in rings:
            self.set_event(Request.SET_VRING_CALL, ring.index, ring.call_fd)

    def get_base(self, index: int) -> int:
        """Sends GET_VRING_BASE, which stops the ring."""
        reply = self.call(Request.GET_VRING_BASE, messages.vring_state(index, 0))
        assert int.from_bytes(reply[:4], "little") == index
        return int.from_bytes(reply[4:], "little")

    def stop(self, rings: Sequence[RingSetup]) -> list[int]:
        """Stops the rings, as for a pause or the first half of a reset; returns the base of each ring."""
        for index in range(self.num_queues):
            self.enable(index, enabled=False)
        return [self.get_base(ring.index) for ring in rings]

    def reset(self) -> None:
        """Sends what follows `stop` when the guest resets the device."""
        self.send(Request.RESET_DEVICE)

    def config_read(self, offset: int = 0, size: int = messages.CONFIG_SPACE_BYTES) -> bytes:
        """Sends GET_CONFIG, as QEMU does for every access of the guest; returns the bytes."""
        return self.call(Request.GET_CONFIG, messages.config(offset, bytes(size)))[12:]

    def config_write(self, data: bytes, offset: int = 0) -> None:
        self.must(Request.SET_CONFIG, messages.config(offset, data))

    def wait_config_change(self) -> None:
        """Waits until the backend has raised the configuration interrupt.

        :raise TimeoutError: the backend does not raise it in time.
        """
        assert self.backend_channel is not None
        data = self.backend_channel.recv(HEADER_BYTES, socket.MSG_WAITALL)
        assert data == messages.build(messages.BackendRequest.CONFIG_CHANGE_MSG), f"the backend sent {data!r}"

    def config_change_is_pending(self) -> bool:
        """True if the configuration interrupt has been raised and not been waited for."""
        assert self.backend_channel is not None
        return bool(select.select([self.backend_channel], [], [], 0)[0])

    def wait_health(self, health: Health) -> None:
        """Waits until the configuration space shows `health`, with or without an interrupt.

        :raise AssertionError: that does not happen in time.
        """
        self.wait_for_config(lambda space: space.health == health)

    def wait_for_config(self, condition: Callable[[Any], bool]) -> Any:
        """Reads the configuration space until it meets `condition`, and returns it.

        :raise AssertionError: that does not happen in time.
        """

        def wanted() -> Any:
            space = schema.CONFIG.construct.parse(self.config_read())
            return space if condition(space) else None

        return until(wanted)

    def err_signalled(self, index: int, timeout_s: float = TIMEOUT_S) -> bool:
        """True if the ring's err descriptor is signalled, now or within the time."""
        return bool(select.select([self.err_fds[index]], [], [], timeout_s)[0])
