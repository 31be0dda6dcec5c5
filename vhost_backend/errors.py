"""Errors, one class per party at fault.

=================  ============================  =========================================================
error              at fault                      consequence
=================  ============================  =========================================================
`ConfigError`      the author of the config      the program ends with exit code 2
`HostError`        the host, which lacks a thing the program ends with exit code 3
`FrontendError`    the vhost-user frontend       the message is refused or the connection dropped
`DriverError`      the driver in the guest       the request is answered with a status; serving continues
`QuotaError`       the driver, over its quota    as DriverError
`EngineError`      an engine or its device       the request is answered; its context is retired
`WorkerError`      a worker process              the worker is replaced
=================  ============================  =========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from virtio_proto.schema import Status


class VgcError(Exception):
    """Base of every error that this project raises on purpose."""

    exit_code: ClassVar[int] = 1


class ConfigError(VgcError):
    """The configuration cannot be used. `problems` holds every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class HostError(VgcError):
    """The host lacks something that is needed; `hint` says how to get it."""

    exit_code = 3

    def __init__(self, text: str, hint: str = "") -> None:
        self.text = text
        self.hint = hint
        super().__init__(f"{text} ({hint})" if hint else text)


class FrontendError(VgcError):
    """The frontend sent something that the vhost-user protocol, or this backend, does not allow."""

    def __init__(self, message: str, field: str, found: object, allowed: str) -> None:
        self.message = message
        self.field = field
        self.found = found
        self.allowed = allowed
        super().__init__(f"{message}: {field} is {found}; allowed: {allowed}")


class DriverError(VgcError):
    """A request cannot be served; the driver gets `status` and this text."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        super().__init__(text)


class QuotaError(DriverError):
    """A request would exceed the VM's quota."""

    def __init__(self, text: str, status: Status = Status.RESOURCES_EXHAUSTED) -> None:
        super().__init__(status, text)


class EngineError(VgcError):
    """An engine failed in a way that is not the request's fault."""


class WorkerError(VgcError):
    """A worker process misbehaved: broke the protocol, hung or died."""
