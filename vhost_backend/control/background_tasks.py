"""Background tasks of the control system: work that nobody awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from vhost_backend.log import Logger


class BackgroundTasks:
    """Keeps tasks until they end, logs the errors of those that fail, and cancels the others at the end."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work` in the background."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("control_task_failed", error=repr(error))

    async def close(self) -> None:
        """Cancels all tasks and waits for their ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
