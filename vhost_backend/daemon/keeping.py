"""State of a VM at the keeper, so that the next daemon can serve it on: records, descriptors, its frontend's connection.

Each part of a VM tells its present record when it is asked. Whenever something may have changed, all that has changed goes
to the keeper, in one commit with the answer to the frontend's message that changed it: either the next daemon sees the message
and not its consequences, or the consequences, and the frontend has its answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Final, TypeAlias

from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd, FdBag, HasFileno
from vhost_backend.keeper.client import (
    AddRelay,
    Change,
    Drop,
    HungUp,
    Keeper,
    Kept,
    Put,
    Relayed,
    below,
)
from vhost_backend.keeper.record import Record, pack
from vhost_backend.keeper.shelf import Shelf
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.connection import (
    Connection,
    Message,
    SocketConnection,
    ended_early,
    parsed,
    too_many_fds,
)

Told: TypeAlias = tuple[Record, Mapping[str, HasFileno]] | None
"""Record of a part, and descriptors by name; None: the part has nothing to keep."""

SETTINGS: Final = "settings"
"""Key of the settings with which the frontend is served."""
_FRONTEND: Final = "frontend"
"""Key of the frontend's connection."""


def settings_of(keeper: Keeper | None, kept: Mapping[str, Kept]) -> dict[str, bytes]:
    """Records of the settings of VMs whose frontends an earlier daemon has served, by VM."""
    found = {}
    for key, entry in kept.items():
        folder, _, part = key.rpartition("/")
        if part == SETTINGS and keeper is not None and keeper.relays(f"{folder}/{_FRONTEND}"):
            found[folder.removeprefix("vm/")] = entry.blob
    return found


class VmKeep:
    """One VM's place at the keeper. Without a keeper nothing is kept, and connections are served directly."""

    def __init__(self, name: str, keeper: Keeper | None = None, kept: MutableMapping[str, Kept] | None = None) -> None:
        """`kept`: all that an earlier daemon has left, of which this takes what is the VM's."""
        self.lasting = Shelf(f"lasting/{name}", keeper, kept)
        """Entries that outlast the VM's frontends."""
        self._folder = f"vm/{name}"
        self._keeper = keeper
        self._parts: dict[str, Callable[[], Told]] = {}
        self._sent: dict[str, bytes | HasFileno | Kept] = {}
        self._connection: KeptConnection | None = None
        for key, entry in (kept or {}).items():
            if key.startswith(f"{self._folder}/"):
                self._sent[key] = entry.blob if entry.fd is None else entry
        self._left: dict[str, Kept] = below(kept or {}, self._folder)
        """Entries of an earlier daemon that nobody has taken yet."""
        self._waits = False
        """True while a message is open: what it changes goes with its answer."""

    @property
    def lifeline(self) -> int | None:
        """Process whose end ends the VM's processes; None: the daemon's own."""
        return None if self._keeper is None else self._keeper.pid

    @property
    def keeper(self) -> Keeper | None:
        return self._keeper

    @property
    def has_frontend(self) -> bool:
        """True if an earlier daemon has served a frontend of the VM, which is connected still."""
        return self._keeper is not None and self._keeper.relays(f"{self._folder}/{_FRONTEND}")

    # ---- records ---------------------------------------------------------------------------------

    def add(self, part: str, tell: Callable[[], Told]) -> None:
        """Keeps a part of the VM from now on, as `tell` describes it."""
        self._parts[part] = tell

    def save(self) -> None:
        """Leaves all that has changed with the keeper, unless a message is open, whose answer takes it along."""
        if self._keeper is not None and not self._waits and (changes := self._changes()):
            self._keeper.commit(changes)

    def take(self, part: str) -> tuple[bytes, dict[str, Fd]] | None:
        """Takes the record that an earlier daemon has left of a part, and its descriptors; None: it has left none."""
        entry = self._left.pop(part, None)
        names = [key for key in self._left if key.startswith(f"{part}/")]
        fds = {key.removeprefix(f"{part}/"): fd for key in names if (fd := self._left.pop(key).fd) is not None}
        if entry is None:
            for fd in fds.values():
                fd.close()
            return None
        return entry.blob, fds

    def set(self, part: str, record: Record) -> None:
        """Leaves the record of a part with the keeper at once, whatever is held back; its descriptors stay as they are."""
        if self._keeper is not None:
            key, blob = f"{self._folder}/{part}", pack(record)
            self._keeper.commit([Put(key, blob)])
            self._sent[key] = blob

    def hold(self) -> None:
        """Leaves nothing with the keeper until `go_on`: not all parts of the VM are there again."""
        self._waits = True

    def go_on(self) -> None:
        """Leaves what is there with the keeper, in place of what an earlier daemon has left."""
        self._waits = False
        self.save()

    def _changes(self) -> list[Change]:
        """Differences between what the keeper has and what it should have, as changes; they count as made."""
        now: dict[str, bytes | HasFileno] = {}
        for part, tell in self._parts.items():
            if (told := tell()) is not None:
                record, fds = told
                now |= {f"{self._folder}/{part}/{name}": fd for name, fd in fds.items()}
                now[f"{self._folder}/{part}"] = pack(record)
        changes: list[Change] = [Drop(key) for key in self._sent if key not in now]
        for key, value in now.items():
            before = self._sent.get(key)
            if isinstance(value, bytes):
                if value != before:
                    changes.append(Put(key, value))
            elif value != before:
                changes.append(Put(key, fd=value))
        self._sent = dict(now)
        return changes

    # ---- the frontend's connection ---------------------------------------------------------------

    def connection(self, sock: socket.socket) -> Connection:
        """The connection to a frontend, which owns `sock`."""
        if self._keeper is None:
            return SocketConnection(sock)
        key = f"{self._folder}/{_FRONTEND}"
        with sock:
            self._keeper.commit([AddRelay(key, sock)])
        return self._open(self._keeper, key)

    def connection_again(self) -> Connection:
        """The connection that the frontend has had to an earlier daemon."""
        assert self._keeper is not None
        return self._open(self._keeper, f"{self._folder}/{_FRONTEND}")

    def forget_frontend(self) -> None:
        """Drops all that was kept for the VM's frontend and its guest."""
        for fd in [entry.fd for entry in self._left.values()]:
            if fd is not None:
                fd.close()
        self._left.clear()
        self._parts.clear()
        self._waits = False
        if self._keeper is not None:
            self._keeper.commit([Drop(self._folder)])
            self._sent.clear()

    def _open(self, keeper: Keeper, key: str) -> KeptConnection:
        self._connection = KeptConnection(self, keeper, key)
        return self._connection

    def begin_message(self) -> None:
        """Holds changes back until the message is answered."""
        self._waits = True

    def answer(self, key: str, seq: int, reply: bytes) -> None:
        """Answers a message, with all that it has changed."""
        self._waits = False
        if self._keeper is not None:
            self._keeper.commit(self._changes(), (key, seq, reply))


class KeptConnection:
    """Connection to a frontend that the keeper relays. Implements `Connection`."""

    def __init__(self, keep: VmKeep, keeper: Keeper, key: str) -> None:
        self._keep = keep
        self._keeper = keeper
        self._key = key
        self._said: asyncio.Queue[Relayed | HungUp] = asyncio.Queue()
        self._seq = 0
        keeper.listen(key, self._said.put_nowait)

    async def receive(self) -> Message | None:
        said = await self._said.get()
        if isinstance(said, HungUp):
            if said.unfinished:
                raise _unfinished(said.unfinished)
            return None
        fds = FdBag(said.fds)
        try:
            message = _message(said, fds)
        except FrontendError:
            fds.close()
            raise
        self._seq = said.seq
        self._keep.begin_message()
        return message

    async def answer(self, data: bytes) -> None:
        self._keep.answer(self._key, self._seq, data)

    def close(self) -> None:
        self._keeper.forget(self._key)
        while not self._said.empty():
            said = self._said.get_nowait()
            if isinstance(said, Relayed):
                FdBag(said.fds).close()


def _message(said: Relayed, fds: FdBag) -> Message:
    """:raise FrontendError: the message is malformed."""
    header = messages.parse_header(said.data[: messages.HEADER_BYTES])
    if said.is_cut or len(fds) > messages.MAX_FDS:
        raise too_many_fds(header.request.name)
    return parsed(header, said.data[messages.HEADER_BYTES :], fds)


def _unfinished(data: bytes) -> FrontendError:
    """:raise FrontendError: its header is wrong."""
    if len(data) < messages.HEADER_BYTES:
        return ended_early("header", len(data), messages.HEADER_BYTES)
    header = messages.parse_header(data[: messages.HEADER_BYTES])
    return ended_early(header.request.name, len(data) - messages.HEADER_BYTES, header.size_bytes)
