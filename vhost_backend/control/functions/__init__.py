"""User-mode function modules: one file for each function, which makes its instances and digests what they receive.

The patent's "target user-mode function module"; `MODULES` is all of them, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vhost_backend.control.functions.base import FunctionModule
from vhost_backend.control.functions.fault import FaultModule
from vhost_backend.control.functions.firmware import FirmwareModule
from vhost_backend.control.functions.load import LoadModule
from vhost_backend.control.functions.log import LogModule
from vhost_backend.control.functions.perf import PerfModule
from vhost_backend.control.functions.snapshot import SnapshotModule
from vhost_backend.control.functions.stdio import StdioModule

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
