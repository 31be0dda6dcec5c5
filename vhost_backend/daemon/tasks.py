"""Tasks of a daemon, of which an error that nobody handles ends the process alone where VMs can go on without it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Generator
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


async def _alone(coro: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await coro
    except Exception:  # noqa: BLE001  whatever it is, VMs go on
        get_logger().exception("crashed", means="the next vgcd takes over")
        os._exit(1)
