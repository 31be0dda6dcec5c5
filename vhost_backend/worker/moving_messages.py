"""What a daemon tells two workers to move a VM's work from one to the other: a part of `vhost_backend.worker.protocol`.

::

    daemon                 first worker                       second worker (after setup and mem_table)
    move_hold      ->      takes no more requests
                   <-      ack, when none is in flight; or refused after timeout_ms, and it takes requests again
    move_measure   ->
                   <-      measured, ack
    move_save      ->      fds: a file of the size that was measured, of zeroes
                   <-      saved, ack
    move_load      ->                                         fds: that file
                   <-                                         ack
    move_release   ->      (if anything failed) takes requests again; saves no further
                   <-      ack

After `move_load` the second worker is told to start the rings where the first has stopped, and the first is ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from vhost_backend.worker.codec import integer, unsigned


@dataclass(frozen=True, slots=True)
class ArenaSetup:
    """Addresses of the VM's own, for everything whose address its guest gets to know; part of `Setup`.

    The same for every worker that the VM's work may be moved between. A size of 0: there are none.
    """

    base: int = unsigned(47)
    size: int = unsigned(47)


NO_ARENA: Final = ArenaSetup(0, 0)


@dataclass(frozen=True, slots=True)
class MoveHold:
    """Take no more requests and let those in flight finish."""

    TYPE: ClassVar[str] = "move_hold"
    seq: int = unsigned(32)
    timeout_ms: int = integer(3_600_000)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class MoveMeasure:
    """Say how much there is to save."""

    TYPE: ClassVar[str] = "move_measure"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class MoveSave:
    """Save everything of the VM into the file beside this."""

    TYPE: ClassVar[str] = "move_save"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class MoveLoad:
    """Load what another worker has saved: the file is beside this."""

    TYPE: ClassVar[str] = "move_load"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class MoveRelease:
    """Take requests again."""

    TYPE: ClassVar[str] = "move_release"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Measured:
    """How long the file must be, in two parts."""

    TYPE: ClassVar[str] = "measured"
    memory_bytes: int = unsigned(62)  # contents of the guest's allocations
    other_bytes: int = unsigned(62)  # programs, their variables, tables

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Saved:
    """How much of it was not zeroes."""

    TYPE: ClassVar[str] = "saved"
    copied_bytes: int = unsigned(62)

    def num_fds(self) -> int:
        return 0


MoveMessage: TypeAlias = MoveHold | MoveMeasure | MoveSave | MoveLoad | MoveRelease
MOVE_MESSAGES: Final = (MoveHold, MoveMeasure, MoveSave, MoveLoad, MoveRelease)
