"""Last snapshots of the cluster, and the difference of two.

The centre numbers snapshots itself; a snapshot holds the answer of each host.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NotRequired, TypedDict

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


class Change(TypedDict):
    """A PE whose state differs; `before` or `after` is null where the PE was not in that snapshot."""

    host: str
    vm: str
    pe: int
    before: PeState | None
    after: PeState | None
    changed: list[str]
    """Fields that differ, except the time of the snapshot."""
    stuck: bool
    """True if the PE is busy with the same block of the same launch as before."""


class SnapshotDiff(TypedDict):
    a: int
    b: int
    elapsed_ns: int
    same: int
    """Number of PEs that are idle as before."""
    changes: list[Change]
    silent_before: NotRequired[list[str]]
    silent_after: NotRequired[list[str]]


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

_FIELDS: Final = ("gpu", "kernel", "launch", "block", "warps", "since_ns", "last_record_ns", "hung")
_Place = tuple[str, str, int]


def diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """Difference of two snapshots: the PEs that changed, and the busy PEs that are stuck."""
    old, new = dict(_elements(before)), dict(_elements(after))
    found = [_change(place, old.get(place), new.get(place)) for place in sorted(old.keys() | new.keys())]
    changes = [change for change in found if change["changed"] or change["stuck"]]
    return {
        "a": before["id"],
        "b": after["id"],
        "elapsed_ns": after["time_ns"] - before["time_ns"],
        "same": len(found) - len(changes),
        "changes": changes,
        "silent_before": list(_silent(before)),
        "silent_after": list(_silent(after)),
    }


def _elements(snapshot: Snapshot) -> Iterator[tuple[_Place, PeState]]:
    for host, info in snapshot["hosts"].items():
        for state in info["pes"]:
            yield (host, state["vm"], state["pe"]), state


def _silent(snapshot: Snapshot) -> Iterable[str]:
    return (f"{host}/{name}" for host, info in snapshot["hosts"].items() for name in info["silent"])


def _change(place: _Place, before: PeState | None, after: PeState | None) -> Change:
    host, vm, pe = place
    stuck = False
    if before is None or after is None:
        changed = list(_FIELDS)
    else:
        changed = [name for name in _FIELDS if before.get(name) != after.get(name)]
        stuck = after["kernel"] is not None and not {"kernel", "launch", "block"} & set(changed)
    return {"host": host, "vm": vm, "pe": pe, "before": before, "after": after, "changed": changed, "stuck": stuck}
