"""What the daemon needs of its neighbours, as interfaces: so that tests can stand in for them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import CompileResult
from virtio_proto.schema import ProgramKind


class Compiler(Protocol):
    """Compiles guest source somewhere else, and never holds up the caller."""

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], target: Target
    ) -> asyncio.Future[CompileResult]:
        """Starts compiling; takes over `source_fd`. Cancelling the future abandons the work.

        Whoever gets the result owns its `image_fd`.
        """
        ...

    async def close(self) -> None:
        """Abandons all work; nothing of it is left on return."""
        ...
