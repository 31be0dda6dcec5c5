"""A value whose changes others wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Watched(Generic[_T]):
    """Holds a value; every watcher gets the present one, and then each that differs from what it got last."""

    def __init__(self, value: _T) -> None:
        self._value = value
        self._changed = asyncio.Condition()

    @property
    def value(self) -> _T:
        return self._value

    async def set(self, value: _T) -> None:
        async with self._changed:
            self._value = value
            self._changed.notify_all()

    async def watch(self) -> AsyncIterator[_T]:
        """Yields values until its user ends it. Values that are replaced before a watcher runs are skipped."""
        seen = self._value
        yield seen
        while True:
            async with self._changed:
                while self._value == seen:
                    await self._changed.wait()
                seen = self._value
            yield seen
