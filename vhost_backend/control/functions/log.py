"""Log management: what kernels log by ``vgc_log(level)``, filtered by level on the element and again per instance."""

from __future__ import annotations

from vhost_backend.control.functions.base import FunctionModule
from virtio_proto.control.records import Function


class LogModule(FunctionModule):
    """The user-mode log management module."""

    function = Function.LOG
