"""In-flight memory as the daemon sees it: created here, written by workers, never trusted.

``vhost_backend/dataplane/vgc_inflight.h`` defines the layout, the meaning of each field and the order of stores. Guest
code may have written anything here: indices are cut to their width, texts are decoded with replacement, and nothing else
is concluded from them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

MAGIC: Final = 0x46504756
VERSION: Final = 1
MAX_QUEUES: Final = 64
HEADER_BYTES: Final = 64
QUEUE_BYTES: Final = 64
BLACK_BOX_OFFSET: Final = HEADER_BYTES + QUEUE_BYTES * MAX_QUEUES
BLACK_BOX_TEXT: Final = 1024
SIZE_BYTES: Final = BLACK_BOX_OFFSET + 24 + BLACK_BOX_TEXT + 8

_MARK: Final = struct.Struct("<II")
_HEADER: Final = struct.Struct("<IIQQ")
_QUEUE: Final = struct.Struct("<IHHH22x4Q")
_HEADS: Final = struct.Struct("<32x4Q")
_BLACK_BOX: Final = struct.Struct("<6I")
_MAX_STATUS: Final = 17
_REQUEST: Final = 1
_NO_REQUEST: Final = 2
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class QueueState:
    """State of one queue as its last worker left it."""

    started: bool
    last_avail: int
    used_idx: int
    heads: tuple[int, ...]
    """Heads in flight, ascending."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of all queues at one moment, as the worker has noted them."""

    mark: bytes
    """Changes whenever a request begins or ends, or a long copy moves on."""
    any_in_flight: bool


@dataclass(frozen=True, slots=True)
class BlackBox:
    """Reason why a worker died in a request, as it wrote it down itself."""

    queue: int
    head: int
    status: int
    detail: int
    text: str


class InflightMemory:
    """Creates, seals and maps the memory; `fd` is handed to workers. A context manager.

    :raise OSError: when the host has no memfd or no memory.
    """

    def __init__(self, fd: int | None = None) -> None:
        """`fd`: memory that another daemon has created, which is taken over; None: creates one."""
        if fd is not None:
            self.fd = fd
            self._map = mmap.mmap(fd, SIZE_BYTES)
            return
        self.fd = os.memfd_create("vgc-inflight", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, SIZE_BYTES)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
            self._map = mmap.mmap(self.fd, SIZE_BYTES)
        except BaseException:
            os.close(self.fd)
            raise
        self.reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Descriptor of the memory, which stays ours."""
        return self.fd

    def close(self) -> None:
        """Unmaps and closes; nothing happens the second time."""
        if not self._map.closed:
            self._map.close()
            os.close(self.fd)

    def reset(self) -> None:
        """Clears the memory, for a fresh device. Only while no worker runs."""
        self._map[:] = bytes(SIZE_BYTES)
        self.stamp()

    def stamp(self) -> None:
        """Writes magic and version, for the next worker: guest code in the last one may have scribbled over them."""
        self._map[: _MARK.size] = _MARK.pack(MAGIC, VERSION)

    def progress(self) -> int:
        """Number of requests that all workers have finished so far."""
        return int(_HEADER.unpack_from(self._map)[2])

    def pieces(self) -> int:
        """Number of pieces of long copies and fills that all workers have done so far."""
        return int(_HEADER.unpack_from(self._map)[3])

    def queue(self, index: int) -> QueueState:
        """State of queue `index`.

        :raise IndexError: when index is not 0..MAX_QUEUES-1.
        """
        if not 0 <= index < MAX_QUEUES:
            raise IndexError(f"queue {index}; allowed: 0..{MAX_QUEUES - 1}")
        started, last_avail, used_idx, _, *words = _QUEUE.unpack_from(self._map, HEADER_BYTES + index * QUEUE_BYTES)
        bits = sum(word << (64 * i) for i, word in enumerate(words))
        heads = tuple(head for head in range(256) if bits >> head & 1)
        return QueueState(started == 1, last_avail, used_idx, heads)

    def requests(self) -> Requests:
        """The present state of all requests."""
        mark = self._map[_MARK.size : BLACK_BOX_OFFSET]
        return Requests(mark, any(map(any, _HEADS.iter_unpack(mark[HEADER_BYTES - _MARK.size :]))))

    def black_box(self) -> BlackBox | None:
        """Reason why a worker died in a request; None if it left no valid one."""
        valid, queue, head, status, detail, _ = _BLACK_BOX.unpack_from(self._map, BLACK_BOX_OFFSET)
        if valid != _REQUEST or queue >= MAX_QUEUES or head >= 256 or not 0 < status <= _MAX_STATUS:
            return None
        return BlackBox(queue, head, status, detail, self._text())

    def last_words(self) -> str:
        """Text that the last worker left when it ended, in a request or not; "" if it left none. For the log.

        The text of a worker that ended outside a request is given only once; that of a request is cleared by the next
        worker, which answers the request with it.
        """
        valid = _BLACK_BOX.unpack_from(self._map, BLACK_BOX_OFFSET)[0]
        if valid not in {_REQUEST, _NO_REQUEST}:
            return ""
        if valid == _NO_REQUEST:
            struct.pack_into("<I", self._map, BLACK_BOX_OFFSET, 0)
        return self._text()

    def _text(self) -> str:
        text_len = _BLACK_BOX.unpack_from(self._map, BLACK_BOX_OFFSET)[5]
        start = BLACK_BOX_OFFSET + _BLACK_BOX.size
        raw = self._map[start : start + min(text_len, BLACK_BOX_TEXT)]
        return bytes(raw).decode(errors="replace")
