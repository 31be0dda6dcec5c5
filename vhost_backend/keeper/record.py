"""Records that a daemon leaves with the keeper: typed structs as MessagePack. Only daemons write and read them."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

U32: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
U64: TypeAlias = Annotated[int, Meta(ge=0)]
"""MessagePack has no larger numbers."""

_R = TypeVar("_R", bound="Record")


class Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all records. A change of its fields takes another `vhost_backend.keeper.client.RECORD_VERSION`."""


def pack(record: Record) -> bytes:
    """The record as bytes."""
    return msgspec.msgpack.encode(record)


def unpack(blob: bytes, kind: type[_R]) -> _R:
    """The record that `pack` has made bytes of.

    :raise msgspec.ValidationError: they are no such record.
    """
    return msgspec.msgpack.decode(blob, type=kind)
