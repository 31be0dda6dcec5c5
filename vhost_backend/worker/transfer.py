"""The file by which a VM's work travels from one worker to another, and what stands where in it.

It is the daemon's, of fixed size and zeroes at first. Its first bytes (`HEAD`) say where the `Manifest` is, which says
where everything else is but for contents of device memory, which come last. Whoever reads it believes nothing, and looks at copies only:
the worker that wrote it runs guest code, and may still be writing.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Final, Self

from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker.codec import (
    ProtocolError,
    integer,
    part_parser,
    text,
    tuple_of,
    unsigned,
)

HEAD: Final = struct.Struct("<QQQ")
"""Where the manifest begins, its length in bytes, and where contents begin."""
ALIGN: Final = 256
"""Of contents: what programs may rely on in device memory is easily kept."""
MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_PROGRAMS: Final = 4096
MAX_FUNCTIONS: Final = 65536
MAX_ALLOCS: Final = 65536
MAX_CONTEXTS: Final = 256


class TransferError(Exception):
    """What is in the file makes no sense, or does not fit; the text says what."""


def _parse_id(path: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: an integer of 1..{(1 << 31) - 1}")
    return value


@dataclass(frozen=True, slots=True)
class MovedProgram:
    """One program; those of a VM are in order of loading."""

    id: int = integer((1 << 31) - 1, minimum=1)
    context: int = integer(MAX_CONTEXTS, minimum=1)
    base: int = unsigned(64)
    image_at: int = unsigned(62)
    image_bytes: int = integer(1 << 30, minimum=1)
    functions: tuple[int, ...] = tuple_of(_parse_id, MAX_FUNCTIONS)
    """Their ids, in the order that the image has them in."""


@dataclass(frozen=True, slots=True)
class MovedOutput:
    """What kernels of a context printed and nobody has taken."""

    context: int = integer(MAX_CONTEXTS, minimum=1)
    text_at: int = unsigned(62)
    text_bytes: int = integer(lib.VGC_MAX_OUTPUT_BYTES)
    lost: int = unsigned(64)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What there is, and where. `objects_at` is a ``struct vgc_moved``, `allocs_at` its allocations."""

    engine: str = text(32)
    features: int = unsigned(64)
    objects_at: int = unsigned(62)
    allocs_at: int = unsigned(62)
    num_allocs: int = integer(MAX_ALLOCS)
    programs: tuple[MovedProgram, ...] = tuple_of(part_parser(MovedProgram), MAX_PROGRAMS)
    outputs: tuple[MovedOutput, ...] = tuple_of(part_parser(MovedOutput), MAX_CONTEXTS)

    def pack(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, raw: bytes) -> Manifest:
        """:raise TransferError: it is none."""
        try:
            manifest: Manifest = part_parser(cls)("manifest", json.loads(raw))
        except (ProtocolError, ValueError, RecursionError) as error:
            raise TransferError(f"the manifest makes no sense: {error!s:.200}") from None
        return manifest


def places(sizes: Iterable[int], start: int) -> Iterator[int]:
    """Where contents of these sizes lie one behind another, and at last where the file ends."""
    at = -(-start // ALIGN) * ALIGN
    for size in sizes:
        yield at
        at = -(-(at + size) // ALIGN) * ALIGN
    yield at


class Transfer:
    """The file, mapped as a whole. A context manager; `fd` stays the caller's, and open.

    :raise TransferError: it cannot be mapped.
    """

    def __init__(self, fd: int, *, writable: bool) -> None:
        self.size_bytes = os.fstat(fd).st_size
        why = ffi.new("char[]", int(lib.VGC_DP_WHY))
        self.handle: Any = lib.vgc_transfer_open(fd, self.size_bytes, writable, why)
        if self.handle == ffi.NULL:
            raise TransferError(ffi.string(why).decode(errors="replace"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps it; nothing happens the second time."""
        if self.handle != ffi.NULL:
            lib.vgc_transfer_close(self.handle)
            self.handle = ffi.NULL

    def read(self, offset: int, size: int) -> Any:
        """A copy, as a cffi buffer that owns its memory.

        :raise TransferError: the file is not so long.
        """
        if not 0 <= size <= self.size_bytes:
            raise TransferError(f"{size} bytes of a transfer of {self.size_bytes}")
        to = ffi.new("uint8_t[]", max(size, 1))
        self._check(lib.vgc_transfer_read(self.handle, offset, to, size), offset, size)
        return ffi.buffer(to, size)

    def write(self, offset: int, data: Any) -> None:
        """:raise TransferError: the file is not so long."""
        view = ffi.from_buffer(data)
        self._check(lib.vgc_transfer_write(self.handle, offset, view, len(view)), offset, len(view))

    def read_manifest(self) -> tuple[Manifest, int]:
        """What there is, and where contents begin.

        :raise TransferError: there is nothing that makes sense.
        """
        at, size, contents_at = HEAD.unpack(self.read(0, HEAD.size))
        if max(at, contents_at) > self.size_bytes:
            raise TransferError(f"a manifest at {at}, contents at {contents_at} of a transfer of {self.size_bytes}")
        if size > MAX_MANIFEST_BYTES:
            raise TransferError(f"a manifest of {size} bytes; allowed: {MAX_MANIFEST_BYTES}")
        return Manifest.parse(bytes(self.read(at, size))), contents_at

    def _check(self, result: int, offset: int, size: int) -> None:
        if result == -errno.ERANGE:
            raise TransferError(f"{size} bytes at {offset} of a transfer of {self.size_bytes}")
