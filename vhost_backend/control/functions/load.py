"""Load management: busy time of each element, each period; what is made of it is `vhost_backend.control.load`'s."""

from __future__ import annotations

from vhost_backend.control.functions.base import PeriodicModule
from virtio_proto.control.records import Function


class LoadModule(PeriodicModule):
    """The user-mode load management module."""

    function = Function.LOAD
    policy = "overwrite-oldest"
