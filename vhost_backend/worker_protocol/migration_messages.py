"""Messages by which a daemon migrates a VM's work from one worker to another; part of `protocol`.

::

    daemon                    first worker                       second worker (after setup and mem_table)
    migration_hold      ->    takes no more requests
                        <-    ack once no request is in flight; after timeout_ms a refusal, and requests are taken again
    migration_measure   ->
                        <-    measured, ack
    migration_save      ->    fds: a file of the measured size, full of zeroes
                        <-    saved, ack
    migration_load      ->                                       fds: that file
                        <-                                       ack
    migration_release   ->    (after any failure) takes requests again; stops saving
                        <-    ack

After `migration_load` the second worker is told to start the rings where the first has stopped, and the first is ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from vhost_backend.worker_protocol.codec import integer, unsigned


@dataclass(frozen=True, slots=True)
class ArenaSetup:
    """Address range reserved for everything whose address the guest gets to know; part of `Setup`.

    It is equal in all workers between which the VM's work may be migrated. A size of 0: no range is reserved.
    """

    base: int = unsigned(47)
    size: int = unsigned(47)


NO_ARENA: Final = ArenaSetup(0, 0)


@dataclass(frozen=True, slots=True)
class MigrationHold:
    """Stops taking requests and lets those in flight finish."""

    TYPE: ClassVar[str] = "migration_hold"
    seq: int = unsigned(32)
    timeout_ms: int = integer(3_600_000)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class MigrationMeasure:
    """Asks how much there is to save; answered by `Measured` and an ack."""

    TYPE: ClassVar[str] = "migration_measure"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class MigrationSave:
    """Saves all of the VM's work into the transfer file. One fd: the file."""

    TYPE: ClassVar[str] = "migration_save"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class MigrationLoad:
    """Loads the work that the other worker has saved. One fd: the transfer file."""

    TYPE: ClassVar[str] = "migration_load"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class MigrationRelease:
    """Takes requests again."""

    TYPE: ClassVar[str] = "migration_release"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Measured:
    """Size that the transfer file must have, in two parts."""

    TYPE: ClassVar[str] = "measured"
    memory_bytes: int = unsigned(62)  # contents of the guest's allocations
    other_bytes: int = unsigned(62)  # programs, their variables, tables

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Saved:
    """Number of saved bytes that were not zeroes."""

    TYPE: ClassVar[str] = "saved"
    copied_bytes: int = unsigned(62)

    def num_fds(self) -> int:
        return 0


MigrationMessage: TypeAlias = MigrationHold | MigrationMeasure | MigrationSave | MigrationLoad | MigrationRelease
MIGRATION_MESSAGES: Final = (MigrationHold, MigrationMeasure, MigrationSave, MigrationLoad, MigrationRelease)
