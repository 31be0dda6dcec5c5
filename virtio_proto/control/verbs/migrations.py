"""Verbs about migrations of VMs, confinement to processing elements, and balance."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypedDict

from msgspec import Meta

from virtio_proto.control import selector
from virtio_proto.control.api import MigrationInfo, ProposalInfo
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import (
    LOOK_S,
    HostError,
    Merged,
    Name,
    Reach,
    Request,
    Rest,
    Verb,
    VmRequest,
    one,
    rows,
)

MIGRATION_S = 600.0
"""Time that a caller waits for a migration, which goes on at the host after that."""
_Pes: TypeAlias = Annotated[str, Meta(max_length=1 << 15, description="Processing elements, as `0-3|8`.")]


class HostedMigration(MigrationInfo):
    host: str


class _ElementsRequest(VmRequest, kw_only=True, frozen=True):
    """Request about a VM and some of its processing elements."""

    pes: _Pes | None = None
    """Processing elements as `0-3|8`; null: all."""

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        try:
            _ = self.elements
        except selector.SelectorError as error:
            raise ValueError(f"pes is {self.pes!r:.80}; allowed: {error}") from None

    @property
    def elements(self) -> tuple[int, ...] | None:
        """Numbers of the processing elements, ascending; None: all."""
        return None if self.pes is None else selector.numbers(self.pes)


class Migrate(Verb):
    """Migrates a VM to another GPU or to other processing elements; the guest sees only a pause."""

    name = "migrate"
    role = "operate"
    reach = Reach.VM
    timeout_s = MIGRATION_S
    rest = Rest("POST", "/migrations", "load")
    Answer = MigrationInfo
    merged = one(HostedMigration)

    class Request(_ElementsRequest, kw_only=True, frozen=True):
        gpu: Name | None = None


class Confine(Verb):
    """Confines a VM's kernels to some of its processing elements, or lets them use all of them again."""

    name = "confine"
    role = "operate"
    reach = Reach.VM
    timeout_s = MIGRATION_S
    rest = Rest("POST", "/confine", "load")
    Answer = MigrationInfo
    merged = one(HostedMigration)

    class Request(_ElementsRequest, kw_only=True, frozen=True):
        """VM, and the processing elements that it may use."""


class MigrationList(TypedDict):
    migrations: list[MigrationInfo]


class Migrations(Verb):
    """Lists migrations, running and ended, newest first."""

    name = "migrations"
    timeout_s = LOOK_S
    rest = Rest("GET", "/migrations", "load")
    Answer = MigrationList
    merged = rows(HostedMigration, "migrations", newest="started_ns")


class HostedProposal(ProposalInfo):
    host: str


class ProposalList(TypedDict):
    moves: list[ProposalInfo]


class BalanceAnswer(TypedDict):
    moves: list[HostedProposal]
    failed: list[HostError]


class Balance(Verb):
    """Proposes migrations that even out the load; with `apply` starts them."""

    name = "balance"
    role = "operate"
    reach = Reach.HOSTS
    timeout_s = MIGRATION_S
    rest = Rest("POST", "/balance", "load")
    Answer = ProposalList
    merged = Merged(
        BalanceAnswer,
        lambda answers, failed: {
            "moves": [{**move, "host": host} for host, answer in sorted(answers.items()) for move in answer["moves"]],
            "failed": list(failed),
        },
    )

    class Request(base.Request, kw_only=True, frozen=True):
        apply: bool = False
