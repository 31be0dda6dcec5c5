"""vhost-user messages: names, layouts, and the checks that need only the message itself.

Names follow QEMU's ``docs/interop/vhost-user.rst``, called [vhost-user] here. A message is parsed once, into one
frozen dataclass; an invalid message raises a `FrontendError` that names message, field and what is allowed. Integers
are in the host's byte order, which on supported hosts is little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final, NewType

from construct import Array, Bytes, Int32ul, Int64ul, Struct, this
from construct import Construct as _Construct

from vhost_backend.errors import FrontendError
from virtio_proto.schema import LIMITS

Gpa = NewType("Gpa", int)
"""Guest-physical address."""

Uva = NewType("Uva", int)
"""Address in the frontend's virtual memory; ring addresses are of this kind."""


class Request(IntEnum):
    """Messages from frontend to backend that this backend serves [vhost-user: Front-end message types]."""

    GET_FEATURES = 1
    SET_FEATURES = 2
    SET_OWNER = 3
    SET_MEM_TABLE = 5
    SET_VRING_NUM = 8
    SET_VRING_ADDR = 9
    SET_VRING_BASE = 10
    GET_VRING_BASE = 11
    SET_VRING_KICK = 12
    SET_VRING_CALL = 13
    SET_VRING_ERR = 14
    GET_PROTOCOL_FEATURES = 15
    SET_PROTOCOL_FEATURES = 16
    GET_QUEUE_NUM = 17
    SET_VRING_ENABLE = 18
    SET_BACKEND_REQ_FD = 21
    GET_CONFIG = 24
    SET_CONFIG = 25
    RESET_DEVICE = 34
    GET_MAX_MEM_SLOTS = 36
    ADD_MEM_REG = 37
    REM_MEM_REG = 38


class BackendRequest(IntEnum):
    """Messages from backend to frontend that this backend sends [vhost-user: Back-end message types]."""

    CONFIG_CHANGE_MSG = 2


class VirtioFeature(IntFlag):
    """Feature bits of GET_FEATURES [virtio 1.3 §6], and bit 30, which vhost-user adds."""

    RING_INDIRECT_DESC = 1 << 28
    RING_EVENT_IDX = 1 << 29
    PROTOCOL_FEATURES = 1 << 30
    VERSION_1 = 1 << 32


class ProtocolFeature(IntFlag):
    """Bits of GET_PROTOCOL_FEATURES [vhost-user: Protocol features]."""

    MQ = 1 << 0
    REPLY_ACK = 1 << 3
    BACKEND_REQ = 1 << 5
    CONFIG = 1 << 9
    RESET_DEVICE = 1 << 13
    CONFIGURE_MEM_SLOTS = 1 << 15


# Plain integers: the complement of an IntFlag contains only bits that the enumeration names.
OFFERED_FEATURES: Final = int(
    VirtioFeature.VERSION_1
    | VirtioFeature.RING_INDIRECT_DESC
    | VirtioFeature.RING_EVENT_IDX
    | VirtioFeature.PROTOCOL_FEATURES
)
"""Offered virtio features. RING_RESET is not among them: a queue reset sends the backend no message."""

OFFERED_PROTOCOL_FEATURES: Final = sum(int(feature) for feature in ProtocolFeature)
"""Offered protocol features, all implemented: QEMU acknowledges every one that it knows."""

HEADER_BYTES: Final = 12
VERSION: Final = 1
VERSION_MASK: Final = 0x3
FLAG_REPLY: Final = 1 << 2
FLAG_NEED_REPLY: Final = 1 << 3
MAX_PAYLOAD_BYTES: Final = 4096
MAX_FDS: Final = 8
MAX_TABLE_REGIONS: Final = 8  # [vhost-user: Multiple memory regions description]
MAX_MEM_SLOTS: Final = 32  # VGC_MEM_MAX_REGIONS of vgc_vring.h
CONFIG_HEADER_BYTES: Final = 12
CONFIG_SPACE_BYTES: Final = LIMITS["CONFIG_SIZE"]
VRING_INDEX_MASK: Final = 0xFF
VRING_NO_FD: Final = 1 << 8

_HEADER: Final = Struct("request" / Int32ul, "flags" / Int32ul, "size" / Int32ul)
_U64: Final = Struct("value" / Int64ul)
_VRING_STATE: Final = Struct("index" / Int32ul, "value" / Int32ul)
_VRING_ADDR: Final = Struct(
    "index" / Int32ul,
    "flags" / Int32ul,
    "desc" / Int64ul,
    "used" / Int64ul,
    "avail" / Int64ul,
    "log" / Int64ul,
)
_REGION: Final = Struct("gpa" / Int64ul, "size" / Int64ul, "uva" / Int64ul, "offset" / Int64ul)
_MEM_TABLE: Final = Struct("count" / Int32ul, "padding" / Int32ul, "regions" / Array(this.count, _REGION))
_TABLE_HEADER_BYTES: Final = 8
_MEM_REG: Final = Struct("padding" / Int64ul, "region" / _REGION)
_CONFIG: Final = Struct("offset" / Int32ul, "size" / Int32ul, "flags" / Int32ul, "data" / Bytes(this.size))


# ---- payloads ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nothing:
    """Empty payload."""


@dataclass(frozen=True, slots=True)
class U64:
    value: int


@dataclass(frozen=True, slots=True)
class VringState:
    index: int
    value: int


@dataclass(frozen=True, slots=True)
class VringAddr:
    """Addresses of the three parts of a ring in the frontend's memory."""

    index: int
    flags: int
    desc: Uva
    used: Uva
    avail: Uva


@dataclass(frozen=True, slots=True)
class VringFd:
    """Payload of KICK, CALL and ERR: `has_fd` is False if no descriptor is wanted (polling, or no interrupt)."""

    index: int
    has_fd: bool


@dataclass(frozen=True, slots=True)
class Region:
    """Region of guest memory that a file descriptor gives access to."""

    gpa: Gpa
    size_bytes: int
    uva: Uva
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class MemTable:
    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class ConfigAccess:
    """Access to a part of the device's configuration space: `data` holds the bytes that SET_CONFIG writes."""

    offset_bytes: int
    flags: int
    data: bytes


Payload = Nothing | U64 | VringState | VringAddr | VringFd | Region | MemTable | ConfigAccess


@dataclass(frozen=True, slots=True)
class Header:
    request: Request
    need_reply: bool
    size_bytes: int


# ---- parsing -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """Layout of one kind of message: allowed sizes of its payload, and allowed numbers of descriptors."""

    parse: Callable[[Request, bytes], Payload]
    sizes: range
    fds: range
    needs: ProtocolFeature | None = None


def _fields(layout: _Construct[Any, Any], raw: bytes) -> Any:
    """Parses bytes whose size was checked: construct cannot fail on them."""
    return layout.parse(raw)


def _nothing(_request: Request, _raw: bytes) -> Nothing:
    return Nothing()


def _u64(_request: Request, raw: bytes) -> U64:
    return U64(_fields(_U64, raw).value)


def _vring_state(_request: Request, raw: bytes) -> VringState:
    got = _fields(_VRING_STATE, raw)
    return VringState(got.index, got.value)


def _vring_addr(request: Request, raw: bytes) -> VringAddr:
    got = _fields(_VRING_ADDR, raw)
    if got.flags:
        raise FrontendError(request.name, "flags", hex(got.flags), "0 (dirty logging is not offered)")
    return VringAddr(got.index, got.flags, Uva(got.desc), Uva(got.used), Uva(got.avail))


def _vring_fd(request: Request, raw: bytes) -> VringFd:
    value = _fields(_U64, raw).value
    if value & ~(VRING_INDEX_MASK | VRING_NO_FD):
        raise FrontendError(request.name, "u64", hex(value), "bits 0-7 (index) and 8 (no fd)")
    return VringFd(value & VRING_INDEX_MASK, not value & VRING_NO_FD)


def _region(got: Any) -> Region:
    return Region(Gpa(got.gpa), got.size, Uva(got.uva), got.offset)


def _mem_reg(_request: Request, raw: bytes) -> Region:
    return _region(_fields(_MEM_REG, raw).region)


def _mem_table(request: Request, raw: bytes) -> MemTable:
    """Parses a table, which may be longer than the regions in use: the specification's has 8 entries, Linux sends 2."""
    count = int.from_bytes(raw[:4], "little")
    room, rest = divmod(len(raw) - _TABLE_HEADER_BYTES, _REGION.sizeof())
    if not 0 <= count <= MAX_TABLE_REGIONS:
        raise FrontendError(request.name, "num regions", count, f"0 to {MAX_TABLE_REGIONS}")
    if count > room or rest:
        needed, entry = _TABLE_HEADER_BYTES + count * _REGION.sizeof(), _REGION.sizeof()
        raise FrontendError(request.name, "size", len(raw), f"{needed} for {count} regions, or more by whole {entry}s")
    return MemTable(tuple(_region(got) for got in _fields(_MEM_TABLE, raw).regions))


def _config(request: Request, raw: bytes) -> ConfigAccess:
    offset, size, flags = (int.from_bytes(raw[at : at + 4], "little") for at in (0, 4, 8))
    if len(raw) != CONFIG_HEADER_BYTES + size:
        raise FrontendError(request.name, "config size", size, f"{len(raw) - CONFIG_HEADER_BYTES}, as sent")
    if offset + size > CONFIG_SPACE_BYTES:
        raise FrontendError(request.name, "offset + size", offset + size, f"at most {CONFIG_SPACE_BYTES}")
    if flags not in (0, 1):
        raise FrontendError(request.name, "config flags", hex(flags), "0 (writable) or 1 (live migration)")
    return ConfigAccess(offset, flags, raw[CONFIG_HEADER_BYTES:])


def _exactly(count: int) -> range:
    return range(count, count + 1)


_NO_FD: Final = _exactly(0)
_CONFIG_SIZES: Final = range(CONFIG_HEADER_BYTES, CONFIG_HEADER_BYTES + CONFIG_SPACE_BYTES + 1)
_TABLE_SIZES: Final = range(_TABLE_HEADER_BYTES, _TABLE_HEADER_BYTES + MAX_TABLE_REGIONS * _REGION.sizeof() + 1)

_EMPTY: Final = _Layout(_nothing, _exactly(0), _NO_FD)
_STATE: Final = _Layout(_vring_state, _exactly(_VRING_STATE.sizeof()), _NO_FD)
_NUMBER: Final = _Layout(_u64, _exactly(_U64.sizeof()), _NO_FD)
_EVENT: Final = _Layout(_vring_fd, _exactly(_U64.sizeof()), range(2))

_LAYOUTS: Final[dict[Request, _Layout]] = {
    Request.GET_FEATURES: _EMPTY,
    Request.SET_FEATURES: _NUMBER,
    Request.SET_OWNER: _EMPTY,
    Request.SET_MEM_TABLE: _Layout(_mem_table, _TABLE_SIZES, range(MAX_TABLE_REGIONS + 1)),
    Request.SET_VRING_NUM: _STATE,
    Request.SET_VRING_ADDR: _Layout(_vring_addr, _exactly(_VRING_ADDR.sizeof()), _NO_FD),
    Request.SET_VRING_BASE: _STATE,
    Request.GET_VRING_BASE: _STATE,
    Request.SET_VRING_KICK: _EVENT,
    Request.SET_VRING_CALL: _EVENT,
    Request.SET_VRING_ERR: _EVENT,
    Request.GET_PROTOCOL_FEATURES: _EMPTY,
    Request.SET_PROTOCOL_FEATURES: _NUMBER,
    Request.GET_QUEUE_NUM: _Layout(_nothing, _exactly(0), _NO_FD, ProtocolFeature.MQ),
    Request.SET_VRING_ENABLE: _STATE,
    Request.SET_BACKEND_REQ_FD: _Layout(_nothing, _exactly(0), _exactly(1), ProtocolFeature.BACKEND_REQ),
    Request.GET_CONFIG: _Layout(_config, _CONFIG_SIZES, _NO_FD, ProtocolFeature.CONFIG),
    Request.SET_CONFIG: _Layout(_config, _CONFIG_SIZES, _NO_FD, ProtocolFeature.CONFIG),
    Request.RESET_DEVICE: _Layout(_nothing, _exactly(0), _NO_FD, ProtocolFeature.RESET_DEVICE),
    Request.GET_MAX_MEM_SLOTS: _Layout(_nothing, _exactly(0), _NO_FD, ProtocolFeature.CONFIGURE_MEM_SLOTS),
    Request.ADD_MEM_REG: _Layout(
        _mem_reg, _exactly(_MEM_REG.sizeof()), _exactly(1), ProtocolFeature.CONFIGURE_MEM_SLOTS
    ),
    # QEMU sends no descriptor; the specification has backends accept one from older frontends.
    Request.REM_MEM_REG: _Layout(_mem_reg, _exactly(_MEM_REG.sizeof()), range(2), ProtocolFeature.CONFIGURE_MEM_SLOTS),
}


def _allowed(values: range) -> str:
    return str(values.start) if len(values) == 1 else f"{values.start} to {values.stop - 1}"


def parse_header(raw: bytes) -> Header:
    """Parses the 12 header bytes, with all checks that need no payload.

    :raise FrontendError: unknown request, wrong version or flags, or a size that such a message never has.
    """
    got = _fields(_HEADER, raw)
    try:
        request = Request(got.request)
    except ValueError:
        raise FrontendError("header", "request", got.request, "a message of a negotiated feature") from None
    if got.flags & VERSION_MASK != VERSION:
        raise FrontendError(request.name, "version", got.flags & VERSION_MASK, str(VERSION))
    if got.flags & ~(VERSION_MASK | FLAG_NEED_REPLY):
        raise FrontendError(request.name, "flags", hex(got.flags), "version and need_reply (bit 3)")
    layout = _LAYOUTS[request]
    if got.size not in layout.sizes:
        raise FrontendError(request.name, "size", got.size, _allowed(layout.sizes))
    return Header(request, bool(got.flags & FLAG_NEED_REPLY), got.size)


def parse_payload(header: Header, raw: bytes, num_fds: int) -> Payload:
    """Parses a complete payload of `header.size_bytes` bytes that came with `num_fds` descriptors.

    :raise FrontendError: a field or the number of descriptors is not allowed for this message.
    """
    layout = _LAYOUTS[header.request]
    if num_fds not in layout.fds:
        raise FrontendError(header.request.name, "number of fds", num_fds, _allowed(layout.fds))
    payload = layout.parse(header.request, raw)
    match payload:
        case VringFd(has_fd=has_fd) if num_fds != has_fd:
            raise FrontendError(header.request.name, "number of fds", num_fds, f"{int(has_fd)}, as bit 8 says")
        case MemTable(regions) if num_fds != len(regions):
            raise FrontendError(header.request.name, "number of fds", num_fds, f"{len(regions)}, one per region")
        case _:
            return payload


def required_feature(request: Request) -> ProtocolFeature | None:
    """Protocol feature that must have been negotiated before `request` may be sent."""
    return _LAYOUTS[request].needs


# ---- building ------------------------------------------------------------------------------------


def build(request: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Builds a whole message: header, then `payload`. Version bits are added to `flags`."""
    return _HEADER.build({"request": request, "flags": flags | VERSION, "size": len(payload)}) + payload


def build_reply(request: Request, payload: bytes) -> bytes:
    return build(request, payload, FLAG_REPLY)


def u64(value: int) -> bytes:
    return _U64.build({"value": value})


def vring_state(index: int, value: int) -> bytes:
    return _VRING_STATE.build({"index": index, "value": value})


def vring_addr(index: int, desc: int, used: int, avail: int, flags: int = 0) -> bytes:
    fields = {"index": index, "flags": flags, "desc": desc, "used": used, "avail": avail, "log": 0}
    return _VRING_ADDR.build(fields)


def _region_fields(region: Region) -> dict[str, int]:
    return {"gpa": region.gpa, "size": region.size_bytes, "uva": region.uva, "offset": region.offset_bytes}


def mem_table(regions: tuple[Region, ...]) -> bytes:
    rows = [_region_fields(region) for region in regions]
    return _MEM_TABLE.build({"count": len(regions), "padding": 0, "regions": rows})


def mem_reg(region: Region) -> bytes:
    return _MEM_REG.build({"padding": 0, "region": _region_fields(region)})


def config(offset: int, data: bytes, flags: int = 0) -> bytes:
    return _CONFIG.build({"offset": offset, "size": len(data), "flags": flags, "data": data})
