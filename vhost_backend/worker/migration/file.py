"""Transfer file that carries a VM's work from one worker to another, and its layout.

The daemon makes it, with a fixed size and full of zeroes. Its first bytes (`HEAD`) say where the `Manifest` is; the
manifest says where everything else is, except the contents of device memory, which come last. The reader trusts
nothing and looks at copies only: the worker that wrote the file runs guest code, and may still be writing.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeAlias

from msgspec import Meta

from vhost_backend._dataplane import ffi, lib
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.codec import U62, U64, Part, ProtocolError
from vhost_backend.worker_protocol.registration_messages import MAX_LOG_CHARS, Signatures

HEAD: Final = struct.Struct("<QQQ")
"""Layout of the first bytes: offset of the manifest, its length in bytes, offset of the memory contents."""
ALIGN: Final = 256
"""Alignment of memory contents in the file: at least the alignment that programs may rely on in device memory."""
MAX_MANIFEST_BYTES: Final = 16 << 20
MAX_PROGRAMS: Final = 4096
MAX_FUNCTIONS: Final = 65536
MAX_ALLOCS: Final = 262144
MAX_CONTEXTS: Final = 256


class TransferError(Exception):
    """Contents of the file are malformed or do not fit; the text says which."""


Id: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]


class MigratedProgram(Part, frozen=True):
    """Entry of the manifest for one program; entries are in order of loading."""

    id: Id
    context: Annotated[int, Meta(ge=0, le=MAX_CONTEXTS)]
    """Engine's number; 0: the program is registered for the VM."""
    base: U64
    image_at: U62
    image_bytes: Annotated[int, Meta(ge=1, le=1 << 30)]
    functions: Annotated[tuple[Id, ...], Meta(max_length=MAX_FUNCTIONS)]
    """Ids of the program's functions, in the order of the image."""


class MigratedRegistration(Part, frozen=True):
    """Entry of the manifest for a registered program: its `Registration`."""

    number: Id
    program: Id
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]
    keep: bool
    problem: Annotated[str, Meta(max_length=MAX_LOG_CHARS)]
    """Reason why there is no such program; "": there is one."""
    signatures: Signatures


class MigratedOutput(Part, frozen=True):
    """Text that kernels of a context have printed and the guest has not fetched yet."""

    context: Annotated[int, Meta(ge=1, le=MAX_CONTEXTS)]
    text_at: U62
    text_bytes: Annotated[int, Meta(ge=0, le=lib.VGC_MAX_OUTPUT_BYTES)]
    lost: U64


class Manifest(Part, frozen=True):
    """Table of contents. At `objects_at` lies a ``struct vgc_migration_state``, at `allocs_at` its allocations."""

    engine: Annotated[str, Meta(max_length=32)]
    features: U64
    objects_at: U62
    allocs_at: U62
    num_allocs: Annotated[int, Meta(ge=0, le=MAX_ALLOCS)]
    graphs_at: U62
    """Nodes of all graphs, one behind the other in the order of the state's table."""
    programs: Annotated[tuple[MigratedProgram, ...], Meta(max_length=MAX_PROGRAMS)]
    outputs: Annotated[tuple[MigratedOutput, ...], Meta(max_length=MAX_CONTEXTS)]
    registrations: Annotated[tuple[MigratedRegistration, ...], Meta(max_length=MAX_PROGRAMS)]
    """In the order of registering."""

    def pack(self) -> bytes:
        return codec.pack(self)

    @classmethod
    def parse(cls, raw: bytes) -> Manifest:
        """Parses a packed manifest.

        :raise TransferError: `raw` is malformed.
        """
        try:
            return codec.unpack(raw, cls, "manifest")
        except ProtocolError as error:
            raise TransferError(f"the manifest is malformed: {error!s:.200}") from None


def places(sizes: Iterable[int], start: int) -> Iterator[int]:
    """Yields the offset of each of these contents, laid out one behind the other, and at last the end of the file."""
    at = -(-start // ALIGN) * ALIGN
    for size in sizes:
        yield at
        at = -(-(at + size) // ALIGN) * ALIGN
    yield at


class Transfer:
    """Transfer file, mapped as a whole. A context manager; `fd` stays the caller's, and open.

    :raise TransferError: the file cannot be mapped.
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
        """Unmaps the file; a second call does nothing."""
        if self.handle != ffi.NULL:
            lib.vgc_transfer_close(self.handle)
            self.handle = ffi.NULL

    def read(self, offset: int, size: int) -> Any:
        """Copies bytes out of the file, into a cffi buffer that owns its memory.

        :raise TransferError: the file is shorter.
        """
        if not 0 <= size <= self.size_bytes:
            raise TransferError(f"{size} bytes of a transfer of {self.size_bytes}")
        to = ffi.new("uint8_t[]", max(size, 1))
        self._check(lib.vgc_transfer_read(self.handle, offset, to, size), offset, size)
        return ffi.buffer(to, size)

    def write(self, offset: int, data: Any) -> None:
        """Copies `data` into the file.

        :raise TransferError: the file is shorter.
        """
        view = ffi.from_buffer(data)
        self._check(lib.vgc_transfer_write(self.handle, offset, view, len(view)), offset, len(view))

    def read_manifest(self) -> tuple[Manifest, int]:
        """Reads the manifest and the offset of the memory contents.

        :raise TransferError: the manifest is malformed.
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
