"""Routes about snapshots: takes and keeps snapshots, lists, shows and compares them."""

from __future__ import annotations

from control_center.errors import RefusedError
from control_center.rest.fanout import act, failures
from control_center.rest.route import Call, Route
from control_center.snapshots import SnapshotDiff, SnapshotSummary, diff, summary
from virtio_proto.control.verbs.faults import Snapshot


async def take_snapshot(call: Call) -> Snapshot:
    """Takes a snapshot and keeps it."""
    found = await act(call, call.asked)
    kept = call.centre.snapshots.add(
        call.centre.cluster.clocks.real_ns(), call.caller.name, str(call.selector), found.answers, failures(found)
    )
    call.centre.record_snapshot(kept)
    return call.centre.snapshots.get(kept["id"], call.scope) or {**kept, "hosts": {}, "failed": []}


async def snapshots(call: Call) -> list[SnapshotSummary]:
    """Lists the last snapshots, newest first."""
    return [summary(kept) for kept in call.centre.snapshots.all(call.scope)]


def _kept(call: Call, name: str) -> Snapshot:
    """:raise RefusedError: "unknown": the caller sees no snapshot of this number."""
    text = call.path[name]
    found = call.centre.snapshots.get(int(text), call.scope) if text.isdecimal() and len(text) < 18 else None
    if found is None:
        there = ", ".join(str(kept["id"]) for kept in call.centre.snapshots.all(call.scope)) or "none"
        raise RefusedError("unknown", f"no snapshot {text:.40}; there is: {there}")
    return found


async def kept_snapshot(call: Call) -> Snapshot:
    """Shows a snapshot."""
    return _kept(call, "id")


async def snapshot_diff(call: Call) -> SnapshotDiff:
    """Compares two snapshots: the PEs that changed, and the busy PEs that made no progress."""
    return diff(_kept(call, "a"), _kept(call, "b"))


ROUTES = (
    Route.own("/snapshots", snapshots, list[SnapshotSummary], tag="snapshots"),
    Route.own("/snapshots/{id}", kept_snapshot, Snapshot, tag="snapshots"),
    Route.own("/snapshots/{a}/diff/{b}", snapshot_diff, SnapshotDiff, tag="snapshots"),
)
