"""Fault management: what elements report of their own faults goes into the host's fault book and to policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vhost_backend.control.functions.base import FunctionModule, Host, Source, text_of
from virtio_proto.control import records
from virtio_proto.control.records import Function, Level

MAX_DIGESTED: Final = 64
"""Of one batch; a kernel that reports without end is counted by its channel."""


class FaultModule(FunctionModule):
    """The user-mode fault management module."""

    function = Function.FAULT
    level = Level.DEBUG

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], host: Host) -> None:
        for count, record in enumerate(records.unpack(data)):
            words = record.words()
            if count >= MAX_DIGESTED:
                return
            if words:
                host.fault(source, words[0], text_of(record, names), record.time_ns + source.clock_ns)
