"""What ends a command early, and the exit code that it ends with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import ClassVar, Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4


class CommandError(Exception):
    """The command cannot be done; the text says why and what is allowed."""

    exit_code: ClassVar[int] = FAILED


class UsageError(CommandError):
    """The command line asks for what there is not; nothing was sent."""

    exit_code = USAGE


class RefusalError(CommandError):
    """The control centre or the daemon has said no."""

    exit_code = REFUSED

    def __init__(self, text: str, kind: str = "failed") -> None:
        super().__init__(text)
        self.kind = kind


class NobodyThereError(CommandError):
    """Nobody answers at the address, or hangs up."""

    exit_code = UNREACHABLE


class MissingPackageError(CommandError):
    """What it takes is not installed here."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the Python package {name} is missing; allowed: pip install 'virtio-gpu-compute[control]'")


_NONSENSE: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@contextlib.contextmanager
def answers_of(address: str) -> Iterator[None]:
    """For the time that answers from `address` are used: those that make no sense end the command as others do.

    :raise NobodyThereError: what answers there is of another version, broken, or something else.
    """
    try:
        yield
    except _NONSENSE as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise NobodyThereError(
            f"{address} answers what no control centre or daemon of this version does: {what}"
        ) from error
