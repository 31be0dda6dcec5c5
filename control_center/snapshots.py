"""Last snapshots of the cluster, and the difference of two.

The centre numbers snapshots itself; a snapshot holds the answer of each host.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator
from typing import Final, Literal, TypeAlias, TypedDict

from control_center.scope import Scope
from virtio_proto.control.api import PeState, SnapshotInfo
from virtio_proto.control.verbs.base import HostError
from virtio_proto.control.verbs.faults import Snapshot

MAX_KEPT: Final = 32
MAX_KEPT_PES: Final = 500_000
"""Most processing elements (PEs) in all kept snapshots together; the oldest snapshots are dropped first."""


class SnapshotSummary(TypedDict):
    id: int
    time_ns: int
    owner: str
    selector: str
    hosts: int
    pes: int
    silent: int
    coverage: float
    """Part of all hosts' PEs that answered."""
    skew_ns: int
    """Largest of the hosts' skews."""


ChangeKind: TypeAlias = Literal["hung", "stuck", "silent", "gone", "appeared", "other kernel", "next launch", "further"]
"""Difference of a PE: it hangs now; it is busy with the same block of the same launch as before; it did not answer; it is
not there any more; it is new; it runs another kernel or none; another launch of the same kernel; another block, or it
hangs no more."""


class Change(TypedDict):
    """A PE that does something else, or is stuck; `before` or `after` is null where the PE was not in that snapshot."""

    host: str
    vm: str
    pe: int
    kind: ChangeKind
    before: PeState | None
    after: PeState | None
    changed: list[str]
    """Fields that differ, of kernel, launch, block and hung; empty: the PE is stuck."""


class SnapshotDiff(TypedDict):
    """Difference of two snapshots. Each PE of either counts once: as changed, stuck, or idle as before."""

    a: int
    b: int
    elapsed_ns: int
    changed: int
    """PEs that do something else: kernel, launch, block or hung differ, or one of the snapshots lacks the PE."""
    stuck: int
    """PEs that are busy with the same block of the same launch, and not newly hung."""
    same: int
    """PEs that are idle in both snapshots."""
    changes: list[Change]
    """PEs that are changed or stuck, by host, VM and number."""


class SnapshotStore:
    """Last snapshots, within `MAX_KEPT` and `MAX_KEPT_PES`."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()
        self._numbers = itertools.count(1)

    def add(
        self, time_ns: int, owner: str, selector: str, hosts: dict[str, SnapshotInfo], failed: list[HostError]
    ) -> Snapshot:
        number = next(self._numbers)
        self._kept[number] = {
            "id": number,
            "time_ns": time_ns,
            "owner": owner,
            "selector": selector,
            "hosts": hosts,
            "failed": failed,
        }
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or self._pes() > MAX_KEPT_PES):
            self._kept.popitem(last=False)
        return self._kept[number]

    def _pes(self) -> int:
        return sum(len(info["pes"]) for snapshot in self._kept.values() for info in snapshot["hosts"].values())

    def get(self, number: int, scope: Scope) -> Snapshot | None:
        """Part of a snapshot that `scope` may see; None if the snapshot is unknown or shows nothing of it."""
        kept = self._kept.get(number)
        return None if kept is None else _visible(kept, scope)

    def all(self, scope: Scope) -> Iterator[Snapshot]:
        """Yields the snapshots that `scope` may see, newest first."""
        for kept in reversed(self._kept.values()):
            seen = _visible(kept, scope)
            if seen is not None:
                yield seen


def _visible(snapshot: Snapshot, scope: Scope) -> Snapshot | None:
    if scope.is_all:
        return snapshot
    hosts = {host: _scoped(host, info, scope) for host, info in snapshot["hosts"].items()}
    hosts = {host: info for host, info in hosts.items() if info["pes"] or info["silent"]}
    return {**snapshot, "hosts": hosts, "failed": [], "selector": "", "owner": ""} if hosts else None


def _scoped(host: str, info: SnapshotInfo, scope: Scope) -> SnapshotInfo:
    pes = [pe for pe in info["pes"] if scope.sees(host, pe["vm"])]
    silent = [name for name in info["silent"] if scope.sees(host, name.rpartition("/")[0])]
    coverage = len(pes) / (len(pes) + len(silent)) if pes or silent else 1.0
    return {**info, "pes": pes, "silent": silent, "coverage": coverage}


def summary(snapshot: Snapshot) -> SnapshotSummary:
    infos = list(snapshot["hosts"].values())
    pes, silent = sum(len(info["pes"]) for info in infos), sum(len(info["silent"]) for info in infos)
    return {
        "id": snapshot["id"],
        "time_ns": snapshot["time_ns"],
        "owner": snapshot["owner"],
        "selector": snapshot["selector"],
        "hosts": len(infos),
        "pes": pes,
        "silent": silent,
        "coverage": pes / (pes + silent) if pes or silent else 1.0,
        "skew_ns": max((info["skew_ns"] for info in infos), default=0),
    }


# ---- difference ----------------------------------------------------------------------------------

COMPARED: Final = ("kernel", "launch", "block", "hung")
"""Fields whose difference is a change: what a PE does. Times, warps and the last record differ at each look."""
_Place = tuple[str, str, int]


def diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """Difference of two snapshots: the PEs that changed, and the busy PEs that are stuck."""
    old, new, silent = dict(_elements(before)), dict(_elements(after)), set(_silent(after))
    places = sorted(old.keys() | new.keys())
    found = [_change(place, old.get(place), new.get(place), silent) for place in places]
    changes = [change for change in found if change is not None]
    stuck = sum(change["kind"] == "stuck" for change in changes)
    return {
        "a": before["id"],
        "b": after["id"],
        "elapsed_ns": after["time_ns"] - before["time_ns"],
        "changed": len(changes) - stuck,
        "stuck": stuck,
        "same": len(found) - len(changes),
        "changes": changes,
    }


def _elements(snapshot: Snapshot) -> Iterator[tuple[_Place, PeState]]:
    for host, info in snapshot["hosts"].items():
        for state in info["pes"]:
            yield (host, state["vm"], state["pe"]), state


def _silent(snapshot: Snapshot) -> Iterable[str]:
    return (f"{host}/{name}" for host, info in snapshot["hosts"].items() for name in info["silent"])


def _change(place: _Place, before: PeState | None, after: PeState | None, silent: Container[str]) -> Change | None:
    host, vm, pe = place
    if before is None or after is None:
        changed = list(COMPARED)
    else:
        changed = [name for name in COMPARED if before.get(name) != after.get(name)]
    if not changed and after is not None and after["kernel"] is None:
        return None
    kind = _kind(before, after, changed, is_silent=f"{host}/{vm}/{pe}" in silent)
    return {"host": host, "vm": vm, "pe": pe, "kind": kind, "before": before, "after": after, "changed": changed}


def _kind(before: PeState | None, after: PeState | None, changed: list[str], *, is_silent: bool) -> ChangeKind:
    if after is None:
        return "silent" if is_silent else "gone"
    if before is None:
        return "appeared"
    if not changed:
        return "stuck"
    if after["hung"] and not before["hung"]:
        return "hung"
    if "kernel" in changed:
        return "other kernel"
    return "next launch" if "launch" in changed else "further"
