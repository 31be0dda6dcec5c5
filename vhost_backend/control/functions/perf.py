"""Performance monitoring: block and warp counts, busy and stall time, user counters, gauges with thresholds, events.

By level: CRITICAL counters only, sampled by the worker each period; WARNING events and gauges too; INFO a record for
each block's begin and end too. A period of 0 reports once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from vhost_backend.control.functions.base import MAX_DIGESTED, Host, PeriodicModule, Source, of_types
from virtio_proto.control.records import Function

_GAUGE: Final = 4
_GAUGE_PAYLOAD: Final = struct.Struct("<Qdd")


class PerfModule(PeriodicModule):
    """The user-mode performance monitoring module."""

    function = Function.PERF
    policy = "overwrite-oldest"

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], host: Host) -> None:
        for count, record in enumerate(of_types(data, _GAUGE)):
            if len(record.payload) >= _GAUGE_PAYLOAD.size and count < MAX_DIGESTED:
                address, value, threshold = _GAUGE_PAYLOAD.unpack_from(record.payload)
                name = names.get(address, f"<{address:#x}>")
                host.crossed(source, name, value, threshold, record.time_ns + source.clock_ns)
