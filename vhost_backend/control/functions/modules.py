"""The modules of all functions: the defaults of each, the events that its records report, the records that instances get."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from typing import Final

from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import FaultReported, InputWanted, ThresholdCrossed
from vhost_backend.control.functions.base import (
    MAX_DIGESTED,
    WAIT_NS,
    FunctionModule,
    PeriodicModule,
    Source,
    of_types,
    text_of,
)
from virtio_proto.control.api import MAX_INPUT_BYTES
from virtio_proto.control.records import TYPES, Function, Level

_INPUT_WANTED: Final = 3
_GAUGE: Final = 4
_GAUGE_PAYLOAD: Final = struct.Struct("<Qdd")


class StdioModule(FunctionModule):
    """Standard input and output: prints of an element, and typed input to a kernel on it.

    Prints have one level, so that `filter` keeps all of them.
    """

    function = Function.STDIO
    in_bytes = MAX_INPUT_BYTES
    wait_ns = WAIT_NS

    def filter(self, data: bytes, level: int) -> bytes:
        del level
        return data

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], bus: EventBus) -> None:
        del names
        for record in deque(of_types(data, _INPUT_WANTED), maxlen=1):
            bus.publish(InputWanted(source.vm, source.pe, record.time_ns + source.clock_ns))


class PerfModule(PeriodicModule):
    """Performance: block and warp counts, busy and stall time, counters, gauges with thresholds, events.

    By level: CRITICAL counters only, sampled by the worker each period; WARNING events and gauges too; INFO a record
    for each block's begin and end too. A period of 0 reports once.
    """

    function = Function.PERF
    policy = "overwrite-oldest"

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], bus: EventBus) -> None:
        for count, record in enumerate(of_types(data, _GAUGE)):
            if len(record.payload) >= _GAUGE_PAYLOAD.size and count < MAX_DIGESTED:
                address, value, threshold = _GAUGE_PAYLOAD.unpack_from(record.payload)
                name = names.get(address, f"<{address:#x}>")
                time_ns = record.time_ns + source.clock_ns
                bus.publish(ThresholdCrossed(source.vm, source.pe, name, value, threshold, time_ns))


class LogModule(FunctionModule):
    """Log lines of kernels, ``vgc_log(level)``, filtered by level on the element and again for each instance."""

    function = Function.LOG


class FaultModule(FunctionModule):
    """Faults that elements report, which go to the host's fault book and to policies."""

    function = Function.FAULT
    level = Level.DEBUG

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], bus: EventBus) -> None:
        for count, record in enumerate(of_types(data, *TYPES[self.function])):
            words = record.words()
            if words and count < MAX_DIGESTED:
                time_ns = record.time_ns + source.clock_ns
                bus.publish(FaultReported(source.gpu, source.vm, source.pe, words[0], text_of(record, names), time_ns))


class LoadModule(PeriodicModule):
    """Busy time of each element in each period, for `vhost_backend.control.load`."""

    function = Function.LOAD
    policy = "overwrite-oldest"


class FirmwareModule(FunctionModule):
    """Reports of elements that change their control code (`vhost_backend.control.firmware`)."""

    function = Function.FIRMWARE


class SnapshotModule(FunctionModule):
    """State of an element as it passes a poll point, as a stream.

    A snapshot of all elements at one moment is a verb of its own (`vhost_backend.control.faults.snapshots`).
    """

    function = Function.SNAPSHOT
    policy = "overwrite-oldest"


MODULES: Final[Mapping[str, FunctionModule]] = {
    module.function.name.lower(): module
    for module in (
        StdioModule(),
        PerfModule(),
        LogModule(),
        FaultModule(),
        LoadModule(),
        FirmwareModule(),
        SnapshotModule(),
    )
}
"""Modules by name of function."""
