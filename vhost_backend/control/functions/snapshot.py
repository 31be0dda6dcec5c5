"""Snapshot records: an element's state as it passes a poll point, for who wants them as a stream.

A snapshot of all elements at one moment is a command of its own (`vhost_backend.control.snapshots`).
"""

from __future__ import annotations

from vhost_backend.control.functions.base import FunctionModule
from virtio_proto.control.records import Function


class SnapshotModule(FunctionModule):
    """The user-mode snapshot module."""

    function = Function.SNAPSHOT
    policy = "overwrite-oldest"
