"""Basic input and output: prints of an element to the host, and the host's typed input to a kernel on one element."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from vhost_backend.control.functions.base import WAIT_NS, FunctionModule, Host, Source, of_types
from virtio_proto.control.api import MAX_INPUT_BYTES
from virtio_proto.control.records import Function

_WANTS: Final = 3


class StdioModule(FunctionModule):
    """The user-mode basic input/output module. Prints have one level, so nothing is filtered out of them."""

    function = Function.STDIO
    in_bytes = MAX_INPUT_BYTES
    wait_ns = WAIT_NS

    def filter(self, data: bytes, level: int) -> bytes:
        del level
        return data

    def digest(self, source: Source, data: bytes, names: Mapping[int, str], host: Host) -> None:
        del names
        for record in deque(of_types(data, _WANTS), maxlen=1):
            host.wants_input(source, record.time_ns + source.clock_ns)
