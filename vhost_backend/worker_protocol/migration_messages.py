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

from typing import Annotated, ClassVar, Final, TypeAlias

from msgspec import Meta

from vhost_backend.worker_protocol.codec import U32, U62, Message, Part


class ArenaSetup(Part, frozen=True):
    """Address range reserved for everything whose address the guest gets to know; part of `Setup`.

    It is equal in all workers between which the VM's work may be migrated. A size of 0: no range is reserved.
    """

    base: Annotated[int, Meta(ge=0, le=(1 << 47) - 1)]
    size: Annotated[int, Meta(ge=0, le=(1 << 47) - 1)]


NO_ARENA: Final = ArenaSetup(0, 0)


class MigrationHold(Message, frozen=True):
    """Stops taking requests and lets those in flight finish."""

    TYPE: ClassVar[str] = "migration_hold"
    seq: U32
    timeout_ms: Annotated[int, Meta(ge=0, le=3_600_000)]


class MigrationMeasure(Message, frozen=True):
    """Asks how much there is to save; answered by `Measured` and an ack."""

    TYPE: ClassVar[str] = "migration_measure"
    seq: U32


class MigrationSave(Message, frozen=True):
    """Saves all of the VM's work into the transfer file. One fd: the file."""

    TYPE: ClassVar[str] = "migration_save"
    seq: U32

    def num_fds(self) -> int:
        return 1


class MigrationLoad(Message, frozen=True):
    """Loads the work that the other worker has saved. One fd: the transfer file."""

    TYPE: ClassVar[str] = "migration_load"
    seq: U32

    def num_fds(self) -> int:
        return 1


class MigrationRelease(Message, frozen=True):
    """Takes requests again."""

    TYPE: ClassVar[str] = "migration_release"
    seq: U32


class Measured(Message, frozen=True):
    """Size that the transfer file must have, in two parts."""

    TYPE: ClassVar[str] = "measured"
    MAX_BYTES: ClassVar[int] = 64
    memory_bytes: U62  # contents of the guest's allocations
    other_bytes: U62  # programs, their variables, tables


class Saved(Message, frozen=True):
    """Number of saved bytes that were not zeroes."""

    TYPE: ClassVar[str] = "saved"
    MAX_BYTES: ClassVar[int] = 64
    copied_bytes: U62


MigrationMessage: TypeAlias = MigrationHold | MigrationMeasure | MigrationSave | MigrationLoad | MigrationRelease
MIGRATION_MESSAGES: Final = (MigrationHold, MigrationMeasure, MigrationSave, MigrationLoad, MigrationRelease)
