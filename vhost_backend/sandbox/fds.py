"""File descriptors with an owner."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self


class Fd:
    """Owns a file descriptor until it is closed or released, or, at the latest, until it is forgotten."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def number(self) -> int:
        """The descriptor; -1 once closed or released."""
        return self._number

    def fileno(self) -> int:
        """As `number`, for selectors."""
        return self._number

    def release(self) -> int:
        """Hands the descriptor over to the caller."""
        number, self._number = self._number, -1
        return number

    def close(self) -> None:
        """Closes it; does nothing the second time."""
        number = self.release()
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pipe() -> tuple[Fd, Fd]:
    """A pipe's read end and write end."""
    read_end, write_end = os.pipe()
    return Fd(read_end), Fd(write_end)
