"""Looks at the work by function of a VM's worker."""

from __future__ import annotations

import asyncio
from typing import Final

from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.protocol import FunctionFigures, Functions, LookAtFunctions

LOOK_S: Final = 1.0
"""Longest time that a look waits for the worker, which may be loading a program."""


class FunctionLook:
    """Looks of any number of callers, of which those at the same time share one. A worker is not trusted: it may tell
    anything that the message allows.
    """

    def __init__(self) -> None:
        self._found: tuple[FunctionFigures, ...] = ()
        self._answer: Answer | None = None

    def on_functions(self, message: Functions) -> None:
        """Takes what a worker tells, whether it was asked or not."""
        self._found = message.functions

    async def look(self, link: WorkerLink) -> tuple[FunctionFigures, ...] | None:
        """Work by function; None: the worker does not say in time, or is gone."""
        answer = self._answer
        if answer is None or answer.done():
            self._found = ()
            answer = self._answer = link.post(LookAtFunctions)
        await asyncio.wait([answer], timeout=LOOK_S)
        ack = answer.result() if answer.done() else None
        return self._found if ack is not None and ack.ok else None
