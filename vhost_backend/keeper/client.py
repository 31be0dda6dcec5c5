"""The daemon's side of the keeper: what it has left there, what it leaves there, and messages of frontends.

``vgc_keeper.h`` describes the packets. The keeper is trusted, as the daemon's own memory is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from vhost_backend.errors import HostError
from vhost_backend.fds import Fd, HasFileno
from vhost_backend.keeper.notices import notify
from vhost_backend.log import get_logger
from vhost_backend.sockets import receive_with_fds
from virtio_proto.version import VERSION

RECORD_VERSION: Final = 2
"""Version of what this program leaves with the keeper, and of what it takes from there."""
FD_VARIABLE: Final = "VGC_KEEPER_FD"
VERSION_VARIABLE: Final = "VGC_KEEPER_VERSION"
MAX_PACKET_BYTES: Final = 160 << 10
MAX_KEY_BYTES: Final = 128
MAX_FDS: Final = 200
_MESSAGE_FDS: Final = 16
_HEAD: Final = struct.Struct("=5I")
_OP: Final = struct.Struct("=3Ii")
_CUT: Final = 1
ALIVE_EVERY_S: Final = 5.0
"""The keeper ends a daemon of which it has heard nothing for a minute: its loop has hung."""


class _Type(IntEnum):
    HELLO = 1
    READY = 2
    COMMIT = 3
    END = 4
    ALIVE = 5
    ENTRY = 16
    RELAY = 17
    GO = 18
    MESSAGE = 19
    HANGUP = 20
    EXIT = 21
    STOP = 22


@dataclass(frozen=True, slots=True)
class Put:
    """Sets an entry: bytes, and perhaps a descriptor, of which the keeper gets a copy."""

    key: str
    blob: bytes = b""
    fd: HasFileno | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Removes an entry, those below it, and the connections there."""

    key: str


@dataclass(frozen=True, slots=True)
class AddRelay:
    """Has the keeper relay a frontend's connection, of which it gets a copy."""

    key: str
    fd: HasFileno


Change = Put | Drop | AddRelay


@dataclass(slots=True)
class Kept:
    """Entry that an earlier daemon has left."""

    blob: bytes
    fd: Fd | None


@dataclass(frozen=True, slots=True)
class Relayed:
    """Message of a frontend, as the keeper has read it; its descriptors are the receiver's."""

    seq: int
    data: bytes
    fds: tuple[int, ...]
    is_cut: bool
    """Descriptors were lost on the way."""


@dataclass(frozen=True, slots=True)
class HungUp:
    """End of a frontend's connection."""

    unfinished: bytes
    """First bytes of a message of which the rest never came."""


class Keeper:
    """Connection to the keeper: first `take_over`, then `attach`, and `ready` when VMs are served."""

    def __init__(self, sock: socket.socket, version: int | None) -> None:
        """Takes `sock` over. `version`: of the records that are there; None: no daemon has left any."""
        self._sock = sock
        self._version = version
        self._listeners: dict[str, Callable[[Relayed | HungUp], None]] = {}
        self._early: dict[str, list[Relayed | HungUp]] = {}
        """Messages of connections to which nobody listens yet."""
        self._relayed: set[str] = set()
        """Connections that an earlier daemon has had."""
        self._exits: dict[int, Callable[[int], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._on_end: Callable[[], object] = lambda: None
        self.is_lost = False
        """The keeper has ended before this process."""
        self.pid = os.getppid()
        """Process of the keeper, which is the daemon's parent."""

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str]) -> Keeper | None:
        """The keeper that has started this process; None: it runs without one. No child gets to know of it.

        :raise HostError: the records that are there have a version that this program does not know.
        """
        number, version = environment.pop(FD_VARIABLE, None), environment.pop(VERSION_VARIABLE, None)
        if number is None:
            return None
        there = None if version is None else int(version)
        if there not in (None, RECORD_VERSION):
            text = f"this vgcd cannot take the running one's place: it knows records of version {RECORD_VERSION}, and those have version {there}"
            raise HostError(text, "`vgcd end`, which ends the devices of its guests, and start it anew")
        sock = socket.socket(fileno=int(number))
        sock.set_inheritable(False)
        return cls(sock, there)

    @property
    def is_first(self) -> bool:
        """True if no daemon has been here before."""
        return self._version is None

    # ---- taking over -----------------------------------------------------------------------------

    def hello(self) -> None:
        """Says that this process has loaded its modules, and can take over."""
        self._send(_Type.HELLO, seq=RECORD_VERSION)
        if self._version is not None:
            get_logger().info("spare_ready", pid=os.getpid())

    def take_over(self) -> dict[str, Kept]:
        """Waits until it is this process's turn; returns the entries that are there. Ends the process if the keeper ends.

        A spare, which has said `hello`, waits here.
        """
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is the keeper's
        try:
            kept: dict[str, Kept] = {}
            while True:
                kind, key, _seq, _flags, data, fds = self._receive()
                match kind:
                    case _Type.ENTRY:
                        kept[key] = Kept(data, Fd(fds[0]) if fds else None)
                    case _Type.RELAY:
                        self._relayed.add(key)
                    case _Type.GO:
                        return kept
                    case _:
                        pass
        finally:
            signal.signal(signal.SIGINT, before)

    def relays(self, key: str) -> bool:
        """True if an earlier daemon has had a connection, which nobody serves yet."""
        return key in self._relayed

    def attach(self, on_end: Callable[[], object]) -> None:
        """Has the loop handle what the keeper says from now on; `on_end` is called when the daemon is to end."""
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._sock, self.hear)

    def ready(self) -> None:
        """Says that VMs are served: a spare may be started. A service manager takes this process for the service's main one.

        It counts the service as started by the first daemon; by another, only once the program that it has run says so.
        """
        started = "\nREADY=1" if self.is_first else ""
        if not notify(f"MAINPID={os.getpid()}\nSTATUS=vgcd {VERSION} serves{started}"):
            get_logger().warning("systemd_not_told")
        self._send(_Type.READY)  # now the program that a service manager has run speaks
        if self._loop is not None:
            self._say_alive(self._loop)

    def _say_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        self.alive()
        self._beat = loop.call_later(ALIVE_EVERY_S, self._say_alive, loop)

    def alive(self) -> None:
        """Says that this process does not hang. Once said, it is to be said again and again, as `ready` has it done by the loop."""
        self._send(_Type.ALIVE)

    def end(self) -> None:
        """Says that this process ends on purpose, and all that is kept with it. Only the first call counts."""
        if self._beat is not None:
            self._beat.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._sock)
        self._send(_Type.END)

    # ---- the store -------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], answer: tuple[str, int, bytes] | None = None) -> None:
        """Makes changes; with the last of them a message is answered: (connection, its number, reply).

        They are made all or none, but for more than a packet holds: those go in several, the answer with the last.
        """
        packets = list(_packed(changes))
        for ops, fds, count in packets[:-1]:
            self._send(_Type.COMMIT, flags=count, behind=ops, fds=fds)
        ops, fds, count = packets[-1]
        key, seq, reply = ("", 0, b"") if answer is None else answer
        self._send(_Type.COMMIT, key=key, seq=seq, data=reply, flags=count, behind=ops, fds=fds)

    def listen(self, key: str, listener: Callable[[Relayed | HungUp], None]) -> None:
        """Has messages of a connection passed to `listener`, which owns their descriptors."""
        self._relayed.discard(key)
        self._listeners[key] = listener
        for said in self._early.pop(key, []):
            listener(said)

    def forget(self, key: str) -> None:
        """Drops a connection, which the frontend sees closed."""
        self._listeners.pop(key, None)
        self.commit([Drop(key)])

    def watch_exit(self, pid: int, on_exit: Callable[[int], None]) -> None:
        """Calls `on_exit` with the wait status of a process that an earlier daemon has started."""
        self._exits[pid] = on_exit

    # ---- packets ---------------------------------------------------------------------------------

    def _send(
        self,
        kind: _Type,
        *,
        key: str = "",
        seq: int = 0,
        data: bytes = b"",
        flags: int = 0,
        behind: bytes = b"",
        fds: Sequence[int] = (),
    ) -> None:
        raw = key.encode()
        packet = _HEAD.pack(kind, len(raw), seq, len(data), flags) + raw + data + behind
        try:
            if fds:
                socket.send_fds(self._sock, [packet], list(fds))
            else:
                self._sock.send(packet, socket.MSG_NOSIGNAL)
        except ConnectionError:
            pass  # its end is noticed by the reader
        except OSError as error:
            get_logger().error("keeper_not_told", error=str(error))

    def _receive(self) -> tuple[_Type, str, int, int, bytes, tuple[int, ...]]:
        packet, fds, _flags = receive_with_fds(self._sock, MAX_PACKET_BYTES, _MESSAGE_FDS)
        if not packet:
            raise SystemExit(1)
        kind, key_len, seq, size, flags = _HEAD.unpack_from(packet)
        behind = _HEAD.size + key_len
        key = packet[_HEAD.size : behind].decode()
        return _Type(kind), key, seq, flags, packet[behind : behind + size], fds

    def hear(self) -> None:
        """Handles one packet of the keeper's, for which it waits."""
        try:
            kind, key, seq, flags, data, fds = self._receive()
        except (SystemExit, OSError):
            if self._loop is not None:
                self._loop.remove_reader(self._sock)
            self.is_lost = True
            get_logger().error("keeper_lost", means="its connections to QEMU are gone, and vgcd ends")
            self._on_end()
            return
        match kind:
            case _Type.MESSAGE:
                self._pass_on(key, Relayed(seq, data, fds, bool(flags & _CUT)))
            case _Type.HANGUP:
                self._pass_on(key, HungUp(data))
            case _Type.STOP:
                self._on_end()
            case _Type.EXIT:
                on_exit = self._exits.pop(seq, None)
                if on_exit is not None:
                    on_exit(flags)
            case _:
                pass

    def _pass_on(self, key: str, said: Relayed | HungUp) -> None:
        listener = self._listeners.get(key)
        if listener is not None:
            listener(said)
        else:
            self._early.setdefault(key, []).append(said)


def _packed(changes: Sequence[Change]) -> Iterator[tuple[bytes, list[int], int]]:
    """Operations for one packet after the other, with their descriptors and their number; at least one packet."""
    ops, fds, count = bytearray(), list[int](), 0
    for change in changes:
        op, fd = _op(change, len(fds))
        if len(ops) + len(op) > MAX_PACKET_BYTES - 2 * MAX_KEY_BYTES - 4096 or len(fds) == MAX_FDS:
            yield bytes(ops), fds, count
            ops, fds, count = bytearray(), [], 0
            op, fd = _op(change, 0)
        ops += op
        count += 1
        if fd is not None:
            fds.append(fd)
    yield bytes(ops), fds, count


def _op(change: Change, index: int) -> tuple[bytes, int | None]:
    key = change.key.encode()
    match change:
        case Put(_, blob, fd):
            number = None if fd is None else fd.fileno()
            return _OP.pack(1, len(key), len(blob), -1 if number is None else index) + key + blob, number
        case Drop():
            return _OP.pack(2, len(key), 0, -1) + key, None
        case AddRelay(_, fd):
            return _OP.pack(3, len(key), 0, index) + key, fd.fileno()


def below(kept: Mapping[str, Kept], folder: str) -> dict[str, Kept]:
    """Entries below a key, by the rest of theirs."""
    return {key.removeprefix(f"{folder}/"): entry for key, entry in kept.items() if key.startswith(f"{folder}/")}
