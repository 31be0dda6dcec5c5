"""Fault management: what elements report of their own faults goes into the host's fault book and to policies."""

from __future__ import annotations

from collections.abc import Mapping

from vhost_backend.control.functions.base import MAX_DIGESTED, FunctionModule, Host, Source, of_types, text_of
from virtio_proto.control.records import TYPES, Function, Level


class FaultModule(FunctionModule):
    """The user-mode fault management module."""

    function = Function.FAULT
    level = Level.DEBUG

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], host: Host) -> None:
        for count, record in enumerate(of_types(data, *TYPES[self.function])):
            words = record.words()
            if words and count < MAX_DIGESTED:
                host.fault(source, words[0], text_of(record, names), record.time_ns + source.clock_ns)
