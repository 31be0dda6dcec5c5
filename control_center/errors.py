"""Errors of the control centre, by what comes of them.

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
"""Of each kind of `virtio_proto.control.api.ERROR_KINDS`. Who has shown no valid token is answered 401."""


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
    """A request is not done: `kind` is one of `virtio_proto.control.api.ERROR_KINDS`, the text names what is allowed."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind if kind in HTTP_STATUS else "failed"
        self.text = text
        super().__init__(text)


class UnauthenticatedError(RefusedError):
    """Nobody known asks: no token, a wrong one, or one that has expired."""

    def __init__(self, text: str) -> None:
        super().__init__("denied", text)


class UnreachableError(RefusedError):
    """A daemon does not answer, hangs up, or says what is none of the protocol's."""

    def __init__(self, text: str) -> None:
        super().__init__("failed", text)
