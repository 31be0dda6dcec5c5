"""Firmware management: what elements say when they change their control code (`vhost_backend.control.firmware`)."""

from __future__ import annotations

from vhost_backend.control.functions.base import FunctionModule
from virtio_proto.control.records import Function


class FirmwareModule(FunctionModule):
    """The user-mode firmware management module."""

    function = Function.FIRMWARE
