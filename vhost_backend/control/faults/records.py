"""Records of the fault book and of policies at the keeper.

Another daemon reads them, perhaps one of another version of this program: a change of any of them takes another
`vhost_backend.keeper.client.RECORD_VERSION`.
"""

from __future__ import annotations

from vhost_backend.keeper.record import U32, U64, Record
from virtio_proto.control.api import FaultKind, PolicyAction, Trigger


class FaultRecord(Record, frozen=True):
    """Entry of the fault book: `vhost_backend.control.faults.book.Fault`, without its VM and its page."""

    number: U64
    gpu: str
    pe: U32 | None
    kind: str
    text: str
    xid: U32 | None
    advice: str
    time_ns: U64
    last_ns: U64
    count: U64
    cleared: bool
    told_ns: U64


class FaultPage(Record, frozen=True):
    """Some entries of one VM."""

    faults: tuple[FaultRecord, ...]


class FaultsOfVm(Record, frozen=True):
    """Entries that a VM has had, occurrences by kind, and blocks in which elements were found hung: launch and block by element."""

    entered: U64
    counts: dict[str, U64]
    hung: dict[int, tuple[U64, U64]]


class BookRecord(Record, frozen=True):
    """Numbers of the fault book."""

    next: U64
    """Number of the next entry."""


class PolicyRecord(Record, frozen=True):
    """Policy that a client has set: `vhost_backend.config.control.PolicyConfig`."""

    name: str
    selector: str
    kinds: tuple[FaultKind, ...]
    trigger: Trigger
    count: U64
    window_s: float
    action: PolicyAction
    target: str


class PolicySet(Record, frozen=True):
    """Policies that hold in place of the configuration's: `count` of them, below the key `number`."""

    number: U64
    count: U64
