"""Errors of the control centre, and what each of them leads to.

====================  ==========================================================================
`ConfigError`         the program ends with exit code 2 and every problem found
`RefusedError`        a request is answered with its kind and text; nothing has changed
`UnreachableError`    a `RefusedError` of the kind "failed": the daemon could not be asked
====================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

HTTP_STATUS: Final = {"malformed": 400, "denied": 403, "unknown": 404, "busy": 409, "quota": 429, "failed": 502}
"""HTTP status for each kind of `virtio_proto.control.api.ERROR_KINDS`; a request without a valid token gets 401."""


class CentreError(Exception):
    """Base of every error that the control centre raises on purpose."""

    exit_code: ClassVar[int] = 1


class ConfigError(CentreError):
    """The configuration cannot be used. Holds every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RefusedError(CentreError):
    """Raised when a request is refused: `kind` is one of `virtio_proto.control.api.ERROR_KINDS`, the text names what is
    allowed.
    """

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind if kind in HTTP_STATUS else "failed"
        self.text = text
        super().__init__(text)


class UnauthenticatedError(RefusedError):
    """Raised when a request has no token, a wrong one, or one that has expired."""

    def __init__(self, text: str) -> None:
        super().__init__("denied", text)


class UnreachableError(RefusedError):
    """Raised when a daemon does not answer, hangs up, or breaks the protocol."""

    def __init__(self, text: str) -> None:
        super().__init__("failed", text)
