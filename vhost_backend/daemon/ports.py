"""What the daemon needs of its neighbours, as interfaces: so that tests can stand in for them."""

from __future__ import annotations

import asyncio
from typing import Protocol

from virtio_proto.schema import ProgramKind


class CompileResult(Protocol):
    """How a compilation ended."""

    @property
    def ok(self) -> bool: ...

    @property
    def image_fd(self) -> int | None:
        """A sealed memfd with the image if ok; whoever awaits the result owns it."""
        ...

    @property
    def log(self) -> str:
        """Everything the compiler said, warnings too."""
        ...

    @property
    def from_cache(self) -> bool: ...


class Compiler(Protocol):
    """Compiles guest source somewhere else, and never holds up the caller."""

    def submit(
        self, vm: str, kind: ProgramKind, source_fd: int, options: tuple[str, ...], engine: str
    ) -> asyncio.Future[CompileResult]:
        """Starts compiling; takes over `source_fd`. Cancelling the future abandons the work."""
        ...
