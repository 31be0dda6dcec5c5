"""Entries of a recording: one `Entry` per batch, event, command, snapshot, load figure or gap, all in one table.

Times in records come from guests' memory. A time that lies too far from its batch's arrival is replaced by the time of
arrival, so that no guest can place its records in another week.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

import msgpack
import numpy as np

from control_center import marks
from control_center.recording_port import CommandRow
from virtio_proto.control.api import EventPush, LoadInfo, RecordsPush, SnapshotInfo
from virtio_proto.control.records import HEADER, MAX_PAYLOAD, RecordError
from virtio_proto.control.selector import FUNCTIONS, SelectorError, parse

MAX_BODY: Final = 256 << 10
"""Longest body of a batch, in bytes: a longer batch is kept in several entries, which bounds a reader's memory."""
MAX_LATE_NS: Final = 3600 * 10**9
"""How far before its batch's arrival a record's time may lie."""
MAX_EARLY_NS: Final = 10**9
"""How far after its batch's arrival a record's time may lie."""
OVERHEAD_BYTES: Final = 320
"""Estimated size of an entry beside its body: columns, indexes, partly filled pages."""
MAX_DETAIL: Final = 64 << 10
"""Longest packed detail of an event or a command, in bytes; of a longer one only the size is kept."""
MAX_LOST: Final = 1 << 40
"""Most lost records that one batch can add, so that sums of many batches fit 64 bits."""
_DEFLATED: Final = b"\x01"
_PLAIN: Final = b"\x00"
_I64_MAX: Final = 2**63 - 1


class DamagedError(ValueError):
    """Raised when an entry's body cannot be unpacked: the store has changed it."""


class Kind(IntEnum):
    """Kinds of entries. The numbers are written to stores and never change."""

    BATCH = 1
    EVENT = 2
    COMMAND = 3
    SNAPSHOT = 4
    LOAD = 5
    GAP = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the store. Absent names are empty, absent numbers -1."""

    kind: Kind
    time_ns: int
    """Time of the first record, or of the event, command, snapshot or load; CLOCK_REALTIME."""
    end_ns: int
    host: str = ""
    gpu: str = ""
    vm: str = ""
    pe: int = -1
    fns: int = 0
    """Batches: bit mask of the functions that have records in the batch, bit 0 for function 0."""
    name: str = ""
    """Event's name, command's verb, snapshot's name, or gap's reason."""
    instance: int = -1
    channel: int = -1
    clock_ns: int = 0
    """Batches: to add to a record's time to get CLOCK_REALTIME, as in `RecordsPush`."""
    arrived_ns: int = 0
    count: int = 0
    """Batches: number of records."""
    lost: int = 0
    """Batches: records that the channel has lost since it was opened."""
    lost_new: int = 0
    """Batches: records that the channel has lost since its previous batch."""
    body: bytes = b""
    texts_bytes: int = 0
    """Size of the texts that are stored together with this entry."""

    @property
    def size(self) -> int:
        """Estimated number of bytes that the entry takes in the store."""
        return len(self.body) + self.texts_bytes + OVERHEAD_BYTES


def host_time(time_ns: int, clock_ns: int, arrived_ns: int) -> int:
    """Converts a record's time to its host's clock; gives the time of arrival if the record's time is implausible."""
    on_host = time_ns + clock_ns
    return on_host if arrived_ns - MAX_LATE_NS <= on_host <= arrived_ns + MAX_EARLY_NS else arrived_ns


def _column(value: int) -> int:
    """Clamps a number from a daemon to the range of a database column."""
    return max(-_I64_MAX, min(value, _I64_MAX))


# ---- batches -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scan:
    """Bounds of a piece of a batch, found without unpacking its records."""

    end: int
    count: int
    first_ns: int
    last_ns: int
    fns: int


def _scan_even(data: bytes, to_host: Callable[[int], int]) -> _Scan | None:
    """Does what `_scan` does in a few array operations, if all records have one length; None if they do not."""
    length = HEADER.unpack_from(data)[3]
    stride = HEADER.size + (length + 7 & ~7)
    if len(data) > MAX_BODY or len(data) % stride or length > MAX_PAYLOAD:
        return None
    count = len(data) // stride
    raw = np.frombuffer(data, np.uint8)
    lengths = np.ndarray((count,), np.dtype("<u2"), raw, 10, (stride,))
    functions = np.ndarray((count,), np.uint8, raw, 8, (stride,)) >> 4
    if (lengths != length).any() or int(functions.max()) >= len(FUNCTIONS):
        return None
    times = np.ndarray((count,), np.dtype("<u8"), raw, 0, (stride,))
    ends = to_host(int(times.min())), to_host(int(times.max()))
    return _Scan(len(data), count, min(ends), max(ends), sum(1 << int(fn) for fn in np.unique(functions)))


def _scan(data: bytes, start: int, to_host: Callable[[int], int]) -> _Scan:
    """Finds the piece of the batch from `start` that is kept as one entry.

    :raise RecordError: the bytes are not records.
    """
    at, count, fns, first, last = start, 0, 0, _I64_MAX, 0
    while at < len(data) and at - start < MAX_BODY - MAX_PAYLOAD - HEADER.size:
        if at + HEADER.size > len(data):
            raise RecordError(f"{len(data) - at} bytes at the end of a batch; a record has at least {HEADER.size}")
        time_ns, function_level, _, length, *_ = HEADER.unpack_from(data, at)
        following = at + HEADER.size + (length + 7 & ~7)
        if function_level >> 4 >= len(FUNCTIONS) or length > MAX_PAYLOAD or following > len(data):
            raise RecordError(f"function {function_level >> 4} with {length} bytes of payload, {len(data) - at} left")
        on_host = to_host(time_ns)
        first, last = min(first, on_host), max(last, on_host)
        fns |= 1 << (function_level >> 4)
        count += 1
        at = following
    return _Scan(at, count, first, last, fns)


def batch_entries(push: RecordsPush, host: str, arrived_ns: int, lost_new: int) -> Iterator[Entry]:
    """Makes the entries of a batch: one, or several if the batch is long. One without records has an entry if it tells of
    losses.

    :raise RecordError: the bytes are not records.
    """
    data, clock_ns = push["data"], push["clock_ns"]

    def to_host(time_ns: int) -> int:
        return host_time(time_ns, clock_ns, arrived_ns)

    if not data and lost_new:  # the channel has lost records since, and has none
        yield _batch_entry(push, host, arrived_ns, _Scan(0, 0, arrived_ns, arrived_ns, _function_bit(push)), lost_new)
    at = 0
    while at < len(data):
        scan = (_scan_even(data, to_host) if at == 0 and len(data) >= HEADER.size else None) or _scan(data, at, to_host)
        made = _batch_entry(push, host, arrived_ns, scan, lost_new if at == 0 else 0)
        yield replace(made, body=data[at : scan.end])
        at = scan.end


def _function_bit(push: RecordsPush) -> int:
    return 1 << FUNCTIONS.index(push["fn"]) if push["fn"] in FUNCTIONS else 0


def _batch_entry(push: RecordsPush, host: str, arrived_ns: int, scan: _Scan, lost_new: int) -> Entry:
    return Entry(
        Kind.BATCH,
        scan.first_ns,
        scan.last_ns,
        host,
        push["gpu"],
        push["vm"],
        _column(push["pe"]),
        scan.fns,
        instance=_column(push["instance"]),
        channel=_column(push["channel"]),
        clock_ns=_column(push["clock_ns"]),
        arrived_ns=arrived_ns,
        count=scan.count,
        lost=_column(push["lost"]),
        lost_new=min(lost_new, MAX_LOST),
    )


# ---- entries of other kinds ----------------------------------------------------------------------


def pack_body(value: Any) -> bytes:
    """Packs a value (maps, lists, texts, bytes, numbers) as an entry's body, compressed if that is shorter."""
    packed: bytes = msgpack.packb(value)
    deflated = zlib.compress(packed, 1) if len(packed) > 512 else packed
    return _DEFLATED + deflated if len(deflated) < len(packed) else _PLAIN + packed


def unpack_body(body: bytes) -> Any:
    """Unpacks a body that `pack_body` made.

    :raise DamagedError: the body has changed since.
    """
    try:
        packed = zlib.decompress(body[1:]) if body[:1] == _DEFLATED else body[1:]
        return msgpack.unpackb(packed, strict_map_key=False)
    except (zlib.error, ValueError, msgpack.UnpackException):
        raise DamagedError("this entry of the recording is damaged") from None


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    size = len(msgpack.packb(value))
    return value if size <= MAX_DETAIL else {"left_out_bytes": size}


def _point_entry(kind: Kind, time_ns: int, host: str, vm: str | None, name: str, *, value: Any) -> Entry:
    time_ns = max(0, min(time_ns, _I64_MAX))
    body = pack_body(value)
    return Entry(kind, time_ns, time_ns, host, vm=vm or "", name=name.replace("\0", "?"), body=body)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else -1


def event_entry(push: EventPush, host: str, arrived_ns: int) -> Entry:
    """Makes the entry of an event, at the time of arrival if its own is implausible: one in another year would never
    be pruned. Marks of programs begin with the first.
    """
    detail = push["detail"]
    times = [host_time(push["time_ns"], 0, arrived_ns)]
    if push["event"] == marks.EVENT:
        times = [host_time(at_ns, 0, arrived_ns) for at_ns, *_ in marks.marks_of(detail)] or times
    made = _point_entry(Kind.EVENT, min(times), host, push["vm"], push["event"], value=_bounded(detail))
    if push["event"] == marks.EVENT:
        made = replace(made, end_ns=max(made.time_ns, *times), arrived_ns=arrived_ns)
    return replace(made, pe=_number(detail.get("pe")), instance=_number(detail.get("instance")))


def command_entry(command: CommandRow) -> Entry:
    """Makes the entry of a command. Its VM is the one that the command names or that its selector chooses alone; of a
    firmware image only the hash is kept.
    """
    arguments = {key: _brief(value) for key, value in command["arguments"].items()}
    rest = {"user": command["user"], "arguments": _bounded(arguments), "error": command["error"]}
    vm = arguments.get("vm") or _one_vm(arguments.get("selector"))
    made = _point_entry(Kind.COMMAND, command["time_ns"], command["host"], vm, command["verb"], value=rest)
    return replace(made, pe=_number(arguments.get("pe")), instance=_number(arguments.get("instance")))


def _brief(value: Any) -> Any:
    if isinstance(value, bytes) and len(value) > MAX_DETAIL // 2:
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    return value


def _one_vm(selector: Any) -> str | None:
    try:
        vm = parse(selector).vm if isinstance(selector, str) else "*"
    except SelectorError:
        return None
    return None if set(vm) & set("*?|") else vm


def snapshot_entry(name: str, info: SnapshotInfo, host: str, arrived_ns: int) -> Entry:
    return _point_entry(Kind.SNAPSHOT, host_time(info["time_ns"], 0, arrived_ns), host, None, name, value=info)


def load_entry(info: LoadInfo, host: str, arrived_ns: int) -> Entry:
    return _point_entry(Kind.LOAD, host_time(info["time_ns"], 0, arrived_ns), host, None, "load", value=info)


def gap_entry(reason: str, from_ns: int, to_ns: int, counts: dict[str, int]) -> Entry:
    """Makes the entry of a time span in which something was not recorded; `counts`: how much, as far as it is known."""
    return replace(_point_entry(Kind.GAP, from_ns, "", None, reason, value=counts), end_ns=max(from_ns, to_ns))
