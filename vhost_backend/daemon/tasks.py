"""Tasks of a daemon, of which an error that nobody handles ends the process alone where VMs can go on without it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Generator, Iterator
from contextvars import Context
from typing import Any, TypeVar

from vhost_backend.log import get_logger

_T = TypeVar("_T")


class Tasks(asyncio.TaskGroup):
    """Group that with a keeper cancels no task for the error of a different one: the process ends before any VM notices."""

    def __init__(self, *, is_kept: bool) -> None:
        """`is_kept`: there is a keeper, whose spare takes over."""
        super().__init__()
        self._is_kept = is_kept

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        wrapped = _alone(coro) if self._is_kept and isinstance(coro, Coroutine) else coro
        return super().create_task(wrapped, name=name, context=context)


@contextlib.contextmanager
def ended_alone(*, is_kept: bool) -> Iterator[None]:
    """Ends the process at once by an error within the block where VMs can go on without it: it must leave all as it is."""
    try:
        yield
    except Exception:
        if not is_kept:
            raise
        get_logger().exception("crashed", means="the next vgcd takes over")
        os._exit(1)


async def _alone(coro: Coroutine[Any, Any, _T]) -> _T:
    with ended_alone(is_kept=True):
        return await coro
