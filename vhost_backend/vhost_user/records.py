"""Records of a session, for a daemon that takes over while the frontend stays connected."""

from __future__ import annotations

from collections.abc import Mapping

from vhost_backend.fds import Fd
from vhost_backend.keeper.record import U64, Record
from vhost_backend.vhost_user.messages import Uva, VringAddr
from vhost_backend.vhost_user.vring import Vring

Address = tuple[int, int, U64, U64, U64]
"""Index, flags, and the addresses of descriptors, used and available part."""


class VringRecord(Record, frozen=True):
    """State of a ring. Its descriptors are kept beside the record."""

    size: int
    base: int
    address: Address | None
    enabled: bool
    running: bool
    stopped_as: tuple[int, int, Address | None] | None


class SessionRecord(Record, frozen=True):
    """State of a session between two messages."""

    features: U64
    protocol_features: U64
    regions: tuple[tuple[U64, U64, U64, U64], ...]
    """Guest address, user address, size and offset of each region, in bytes."""
    vrings: tuple[VringRecord, ...]


def record_of_vring(vring: Vring) -> VringRecord:
    """The record of a ring."""
    stopped = None if vring.stopped_as is None else (*vring.stopped_as[:2], _packed(vring.stopped_as[2]))
    return VringRecord(vring.size, vring.base, _packed(vring.address), vring.enabled, vring.running, stopped)


def restored_vring(index: int, record: VringRecord, fds: Mapping[str, Fd]) -> Vring:
    """The ring of a record, which owns its descriptors, named "kick0" and so on in `fds`."""
    stopped = None if record.stopped_as is None else (*record.stopped_as[:2], _unpacked(record.stopped_as[2]))
    return Vring(
        index,
        size=record.size,
        base=record.base,
        address=_unpacked(record.address),
        kick=fds.get(f"kick{index}"),
        call=fds.get(f"call{index}"),
        err=fds.get(f"err{index}"),
        enabled=record.enabled,
        running=record.running,
        stopped_as=stopped,
    )


def _packed(address: VringAddr | None) -> Address | None:
    return None if address is None else (address.index, address.flags, address.desc, address.used, address.avail)


def _unpacked(address: Address | None) -> VringAddr | None:
    if address is None:
        return None
    index, flags, desc, used, avail = address
    return VringAddr(index, flags, Uva(desc), Uva(used), Uva(avail))
