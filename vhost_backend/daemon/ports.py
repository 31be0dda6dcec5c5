"""What the daemon needs of its neighbours, as interfaces: so that tests can stand in for them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from vhost_backend.compiler.job import Target
from vhost_backend.compiler.service import CompileResult
from vhost_backend.worker.control_messages import ControlSetup
from virtio_proto.schema import ProgramKind

if TYPE_CHECKING:
    from vhost_backend.daemon.link import WorkerLink


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


class VmControl(Protocol):
    """The control system of one VM, as the VM keeps it informed of its workers. Called from the loop; only `begin` may raise."""

    def begin(self, link: WorkerLink) -> AbstractContextManager[tuple[ControlSetup, tuple[int, ...]]]:
        """A worker is about to be told what to be: what of it is the control system's, and descriptors, open in the block.

        :raise OSError: the host has no descriptors or no memory for them.
        """
        ...

    def serves(self, link: WorkerLink, num_pes: int) -> None:
        """The worker is ready and serves the guest, in the place of any other."""
        ...

    def lost(self, reason: str, fault: str | None, *, died: bool) -> None:
        """The worker is gone and reaped; `fault` is the kind of fault that it died of, if it did.

        `died`: of itself, and not because it was to go.
        """
        ...

    def drop_others(self) -> None:
        """Workers that did not get to serve the guest are gone."""
        ...

    def connected(self, on: bool) -> None:
        """A frontend is there, or not any more."""
        ...
