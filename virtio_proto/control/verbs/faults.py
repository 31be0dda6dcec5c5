"""Verbs about faults, fault policies, and snapshots of processing elements."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType

from virtio_proto.control import selector
from virtio_proto.control.api import (
    FAULT_KINDS,
    MAX_POLICIES,
    FaultInfo,
    FaultKind,
    PolicyAction,
    PolicyInfo,
    SnapshotInfo,
    Trigger,
)
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import (
    LOOK_S,
    HostError,
    Merged,
    Reach,
    Rest,
    Selecting,
    Verb,
    rows,
    total,
    unchanged,
)

MAX_CLEARED = 65536
MAX_IDS = 10_000


class Snapshot(TypedDict):
    """Snapshot of all hosts that a selector names, taken in parallel."""

    id: int
    """Number that the control centre gave the snapshot."""
    time_ns: int
    owner: str
    selector: str
    hosts: dict[str, SnapshotInfo]
    failed: list[HostError]


class TakeSnapshot(Verb):
    """Takes a snapshot of all processing elements that the selector names: kernel, block, start, last record.

    Processing elements that do not answer within `deadline_ms` are listed as silent.
    """

    name = "snapshot"
    reach = Reach.ELEMENTS
    timeout_s = LOOK_S
    rest = Rest("POST", "/snapshots", "snapshots")
    Answer = SnapshotInfo
    merged = Merged(Snapshot, lambda answers, failed: {"id": None, "hosts": dict(answers), "failed": list(failed)})

    class Request(Selecting, kw_only=True, frozen=True):
        deadline_ms: Annotated[int, Meta(ge=1, le=10_000)] = 100

    @classmethod
    def deadline_s(cls, request: Any) -> float:
        return cls.timeout_s + float(request.deadline_ms) / 1000


class HostedFault(TypedDict):
    """Fault and its host."""

    fault: str
    """``host/number``"""
    host: str
    time_ns: int
    last_ns: int
    count: int
    gpu: str
    vm: str
    pe: int | None
    kind: str
    xid: int | None
    text: str
    advice: str
    cleared: bool


class FaultTotal(TypedDict):
    """Occurrences of faults of one kind that a VM has had, whether they are listed or not. They never fall while it is served."""

    vm: str
    kind: str
    count: int


class FaultList(TypedDict):
    faults: list[FaultInfo]
    totals: NotRequired[list[FaultTotal]]
    """Counts of the VMs that the selector names; missing if the daemon is older than this field."""


class Faults(Verb):
    """Lists faults of kernels, processing elements and devices, newest first, with advice."""

    name = "faults"
    timeout_s = LOOK_S
    rest = Rest("GET", "/faults", "faults")
    Answer = FaultList
    merged = rows(
        HostedFault,
        "faults",
        newest="last_ns",
        convert=lambda host, fault: {**fault, "host": host, "fault": f"{host}/{fault['fault']}"},
    )

    class Request(Selecting, kw_only=True, frozen=True):
        cleared: Annotated[bool, Meta(description="List cleared faults, too.")] = False


class Cleared(TypedDict):
    cleared: int


class ClearAnswer(TypedDict):
    cleared: int
    failed: list[HostError]


class ClearFaults(Verb):
    """Clears the faults of a selector, or faults by their numbers."""

    name = "clear_faults"
    role = "operate"
    reach = Reach.ELEMENTS
    rest = Rest("POST", "/faults/clear", "faults")
    Answer = Cleared
    merged = total(ClearAnswer, "cleared")

    class Request(Selecting, kw_only=True, frozen=True):
        faults: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_CLEARED)] | None = None
        """An empty list clears nothing; null: all faults of the selector."""

    class Body(base.Body, kw_only=True, frozen=True):
        """Faults to clear: a selector, or ids."""

        selector: str | None = None
        ids: Annotated[list[str], Meta(max_length=MAX_IDS, description="Faults as `host/number`.")] | None = None

        def __post_init__(self) -> None:
            if (self.selector is None) == (self.ids is None):
                raise ValueError("the body has both selector and ids, or neither; allowed: one of them")
            selector.parse(self.selector or "")

        @classmethod
        def of(cls, request: Any, host: str | None) -> base.Body:
            if request.faults is None:
                return cls(selector=request.selector)
            return cls(ids=[f"{host}/{number}" for number in request.faults])


# ---- policies ------------------------------------------------------------------------------------


class PolicyFields(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Fault policy of a request; see `PolicyInfo`."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    selector: Annotated[str, Meta(max_length=selector.MAX_CHARS)] = ""
    kinds: Annotated[tuple[FaultKind, ...], Meta(min_length=1)] = FAULT_KINDS
    trigger: Trigger = "edge"
    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    window_s: Annotated[float, Meta(ge=0.001, le=7 * 24 * 3600.0)] = 60.0
    action: PolicyAction = "alert"
    target: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not all(text.isprintable() for text in (self.name, self.target or "")):
            raise ValueError(f"name is {self.name!r:.80}, target is {self.target!r:.80}; allowed: printable text")
        selector.parse(self.selector)


class PolicyList(TypedDict):
    policies: list[PolicyInfo]


class Policies(Verb):
    """Lists the fault policies of a host."""

    name = "policies"
    reach = Reach.HOST
    rest = Rest("GET", "/policies/{host}", "faults")
    Answer = PolicyList
    merged = unchanged(list[PolicyInfo], "policies")


class SetPolicies(Verb):
    """Replaces the fault policies of a host."""

    name = "set_policies"
    role = "admin"
    reach = Reach.HOST
    rest = Rest("PUT", "/policies/{host}", "faults")
    Answer = PolicyList
    merged = unchanged(list[PolicyInfo], "policies")

    class Request(base.Request, kw_only=True, frozen=True):
        policies: Annotated[list[PolicyFields], Meta(max_length=MAX_POLICIES)]

        def __post_init__(self) -> None:
            names = [policy.name for policy in self.policies]
            if len(set(names)) < len(names):
                raise ValueError(f"names are {', '.join(names)}; allowed: each once")
