"""Base class of the function modules, which set the terms of a function's channels and digest their records.

An *instance* is one user's view of a function on the elements that a selector chooses. Several instances share one
device channel per element: `FunctionModule.filter` selects the records that each instance gets, and
`FunctionModule.digest`, called once for each batch, publishes the events that the records report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.control.event_bus import EventBus
from vhost_backend.worker_protocol.control_messages import Terms
from virtio_proto.control import records
from virtio_proto.control.api import POLICIES, Policy
from virtio_proto.control.records import Function, Level, Record, RecordError
from virtio_proto.control.verbs.channels import MAX_PERIOD_MS, Open

MIN_PERIOD_MS: Final = 10
MAX_DIGESTED: Final = 64
"""Bound on the records of one batch that become events; the channel counts all of them."""

WAIT_NS: Final = 1_000_000_000
"""Longest time that an element waits for room or for input; the launch's deadline ends it in any case."""


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a batch of records."""

    gpu: str
    vm: str
    pe: int
    clock_ns: int


class FunctionModule:
    """Module of one function, with the defaults that most functions share."""

    function: ClassVar[Function]
    policy: ClassVar[Policy] = "drop-new"
    level: ClassVar[int] = Level.INFO
    slots: ClassVar[int] = 256
    in_bytes: ClassVar[int] = 0
    wait_ns: ClassVar[int] = 0
    period_ms: ClassVar[int] = 0

    def terms(self, asked: Open.Request) -> Terms:
        """Terms that an ``open`` asks for, with this function's defaults.

        :raise RefusedError: this function has no such terms.
        """
        slots = self.slots if asked.slots is None else asked.slots
        policy = asked.policy or self.policy
        return Terms(
            function=self.function,
            level=self.level if asked.level is None else asked.level,
            policy=POLICIES.index(policy),
            sample=asked.sample,
            slots=1 << (slots - 1).bit_length(),
            in_bytes=self.in_bytes,
            wait_ns=self.wait_ns or (WAIT_NS if policy == "wait" else 0),
            period_ns=self._period_ms(asked.period_ms) * 1_000_000,
        )

    def _period_ms(self, asked: int | None) -> int:
        """Period of the function's reports; most functions have none and report when something happens."""
        if asked is not None:
            raise _wrong_period(asked, f"nothing: {self.function.name.lower()} has no period, perf and load do")
        return 0

    def filter(self, data: bytes, level: int) -> bytes:
        """Records of a batch that an instance of this level gets."""
        kept = [record for record in records.unpack(data) if record.level <= level]
        return b"".join(records.pack(record) for record in kept)

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], bus: EventBus) -> None:
        """Publishes the events that a batch reports. Most functions have none: their records are only for users.

        :raise RecordError: the batch is malformed, so no instance gets it.
        """
        del source, names, bus
        for _ in of_types(data):
            pass


class PeriodicModule(FunctionModule):
    """Module of a function whose figures the worker reports every period."""

    period_ms = 1000

    def _period_ms(self, asked: int | None) -> int:
        period_ms = self.period_ms if asked is None else asked
        if 0 < period_ms < MIN_PERIOD_MS:
            raise _wrong_period(period_ms, f"0 for once, or {MIN_PERIOD_MS} to {MAX_PERIOD_MS}")
        return period_ms


def _wrong_period(period_ms: int, allowed: str) -> RefusedError:
    return RefusedError("malformed", f"open: period_ms is {period_ms}; allowed: {allowed}")


def of_types(data: bytes, *types: int) -> Iterator[Record]:
    """Records of some types in a batch. Records of other types are only checked, which is much cheaper.

    :raise RecordError: the batch is malformed.
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
    """Printable text of a record: guest code may have written anything."""
    text = records.describe(record, names)[:max_chars]
    return "".join(char if char.isprintable() else " " for char in text).strip()
