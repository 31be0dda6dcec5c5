"""What a user-mode function module is: it makes instances of its function and digests what their channels bring.

An *instance* is one user's view of a function on the elements that a selector chooses. Several instances share one
device channel per element; what each of them gets of its records is `FunctionModule.filter`, what the host itself
learns from them `FunctionModule.digest`, which sees each batch once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from vhost_backend.control.channel_port import Terms
from vhost_backend.control.fields import Fields
from virtio_proto.control import records
from virtio_proto.control.records import Function, Level, Record, RecordError

POLICIES: Final = ("drop-new", "overwrite-oldest", "wait")
MAX_SLOTS: Final = 1 << 16
MIN_PERIOD_MS: Final = 10
MAX_PERIOD_MS: Final = 3_600_000
MAX_SAMPLE: Final = 31
MAX_DIGESTED: Final = 64
"""Records of one batch that the host looks into; a kernel that reports without end is counted by its channel."""

WAIT_NS: Final = 1_000_000_000
"""How long an element waits at most for room or for input: the launch's deadline ends it anyway."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a batch comes from."""

    gpu: str
    vm: str
    pe: int
    clock_ns: int


class Host(Protocol):
    """What modules tell the host of what they find in records."""

    def fault(self, source: Source, code: int, text: str, time_ns: int) -> None:
        """An element reported a fault; `code` is of ``enum vgc_ctl_fault``."""
        ...

    def crossed(self, source: Source, name: str, value: float, threshold: float, time_ns: int) -> None:
        """A gauge left the range that was set for it, or came back."""
        ...

    def wants_input(self, source: Source, time_ns: int) -> None:
        """A kernel waits for standard input."""
        ...


class FunctionModule:
    """One function; the base has what most of them share."""

    function: ClassVar[Function]
    policy: ClassVar[str] = "drop-new"
    level: ClassVar[int] = Level.INFO
    slots: ClassVar[int] = 256
    in_bytes: ClassVar[int] = 0
    wait_ns: ClassVar[int] = 0
    period_ms: ClassVar[int] = 0

    def terms(self, fields: Fields) -> Terms:
        """The terms that an ``open`` asks for, with this function's defaults.

        :raise RefusedError: a field is wrong.
        """
        slots = fields.integer("slots", 1, MAX_SLOTS, self.slots)
        policy = fields.choice("policy", POLICIES, self.policy)
        return Terms(
            level=fields.integer("level", Level.CRITICAL, Level.DEBUG, self.level),
            policy=policy,
            sample=fields.integer("sample", 0, MAX_SAMPLE, 0),
            slots=1 << (slots - 1).bit_length(),
            in_bytes=self.in_bytes,
            wait_ns=self.wait_ns or (WAIT_NS if policy == "wait" else 0),
            period_ms=self._period_ms(fields),
        )

    def _period_ms(self, fields: Fields) -> int:
        """How often the function reports; most report when something happens."""
        if "period_ms" in fields:
            raise fields.wrong("period_ms", f"nothing: {self.function.name.lower()} has no period, perf and load do")
        return fields.integer("period_ms", 0, 0, 0)

    def filter(self, data: bytes, level: int) -> bytes:
        """The part of a batch that an instance of this level is for."""
        kept = [record for record in records.unpack(data) if record.level <= level]
        return b"".join(records.pack(record) for record in kept)

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], host: Host) -> None:
        """What the host itself learns from a batch; most functions' records are for their users alone.

        :raise RecordError: it is no batch: then nobody gets it.
        """
        del source, names, host
        for _ in of_types(data):
            pass


class PeriodicModule(FunctionModule):
    """A function whose figures the worker reports every period."""

    period_ms = 1000

    def _period_ms(self, fields: Fields) -> int:
        period_ms = fields.integer("period_ms", 0, MAX_PERIOD_MS, self.period_ms)
        if 0 < period_ms < MIN_PERIOD_MS:
            raise fields.wrong("period_ms", f"0 for once, or {MIN_PERIOD_MS} to {MAX_PERIOD_MS}")
        return period_ms


def of_types(data: bytes, *types: int) -> Iterator[Record]:
    """The records of some types in a batch. The others are only checked, which is a good deal cheaper.

    :raise RecordError: it is no batch.
    """
    at, end = 0, len(data)
    while at < end:
        if at + records.HEADER.size > end:
            raise RecordError(f"{end - at} bytes at the end of a batch")
        _, function_level, kind, length, *_ = records.HEADER.unpack_from(data, at)
        after = at + records.HEADER.size + ((length + 7) & ~7)
        if function_level >> 4 >= len(Function) or length > records.MAX_PAYLOAD or after > end:
            raise RecordError(f"function {function_level >> 4} with {length} bytes of payload, {end - at} left")
        if kind in types:
            yield from records.unpack(data[at:after])
        at = after


def text_of(record: Record, names: Mapping[int, str], max_chars: int = 1000) -> str:
    """What a record says, as printable text: guest code may have written anything."""
    text = records.describe(record, names)[:max_chars]
    return "".join(char if char.isprintable() else " " for char in text).strip()
