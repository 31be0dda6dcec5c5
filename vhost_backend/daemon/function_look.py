"""Looks at the work by function of a VM's worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.protocol import FunctionFigures, Functions, LookAtFunctions

LOOK_S: Final = 1.0
"""Longest time that a look waits for the worker, which may be loading a program."""


@dataclass(slots=True)
class _Look:
    answer: Answer
    found: tuple[FunctionFigures, ...] = ()


class FunctionLook:
    """Looks of any number of callers, of which those at the same time share one. A worker is not trusted: it may tell
    anything that the message allows.
    """

    def __init__(self) -> None:
        self._last: _Look | None = None

    def on_functions(self, message: Functions) -> None:
        """Takes what a worker tells; nothing once it has answered."""
        if self._last is not None and not self._last.answer.done():
            self._last.found = message.functions

    async def look(self, link: WorkerLink) -> tuple[FunctionFigures, ...] | None:
        """Work by function; None: the worker does not say in time, or is gone."""
        look = self._last
        if look is None or look.answer.done():
            look = self._last = _Look(link.post(LookAtFunctions))
        await asyncio.wait([look.answer], timeout=LOOK_S)
        ack = look.answer.result() if look.answer.done() else None
        return look.found if ack is not None and ack.ok else None
