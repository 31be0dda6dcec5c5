"""Errors that end a command, each with its exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import ClassVar, Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4
ATTENTION: Final = 5
"""Exit code of ``vgcctl status`` if something needs attention."""


class CommandError(Exception):
    """Base of all errors that end a command; the text says why and what is allowed."""

    exit_code: ClassVar[int] = FAILED


class UsageError(CommandError):
    """Raised when the command line is wrong; nothing was sent."""

    exit_code = USAGE


class RefusalError(CommandError):
    """Raised when the control centre or the daemon refuses."""

    exit_code = REFUSED

    def __init__(self, text: str, kind: str = "failed") -> None:
        super().__init__(text)
        self.kind = kind


class NobodyThereError(CommandError):
    """Raised when no server answers at the address, or the server hangs up."""

    exit_code = UNREACHABLE


class MissingPackageError(CommandError):
    """Raised when a Python package that the command needs is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the Python package {name} is missing; allowed: pip install 'virtio-gpu-compute[control]'")


_NONSENSE: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextlib.contextmanager
def answers_of(address: str) -> Iterator[None]:
    """Context manager around the use of answers from `address`: turns errors of malformed answers into a `CommandError`.

    :raise NobodyThereError: the server has another version, is broken, or is something else.
    """
    try:
        yield
    except _NONSENSE as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise NobodyThereError(
            f"{address} gives an answer that no control centre or daemon of this version gives: {what}"
        ) from error
