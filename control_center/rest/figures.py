"""Figures of processing elements: counters, gauges and their thresholds; snapshots."""

from __future__ import annotations

from control_center.errors import RefusedError
from control_center.rest.fanout import act, failures, look
from control_center.rest.model import (
    ElementsAnswer,
    HostedStat,
    SnapshotRequest,
    ThresholdRequest,
)
from control_center.rest.route import SELECTOR, Call, Route
from control_center.snapshots import Snapshot, SnapshotDiff, SnapshotSummary, diff, summary
from virtio_proto.control.api import PeStat

MAX_DEADLINE_MS = 10_000


def _hosted(host: str, stat: PeStat) -> HostedStat:
    return {**stat, "host": host}


async def stats(call: Call) -> list[HostedStat]:
    """Counters and gauges of the elements that have an open channel of perf or load."""
    answers = await look(call, "stat")
    return [
        _hosted(name, stat)
        for name, answer in sorted(answers.items())
        for stat in answer["pes"]
        if call.scope.sees(name, stat["vm"])
    ]


async def threshold(call: Call) -> ElementsAnswer:
    """Has elements report when a gauge leaves a range: an event, and a record of perf."""
    request: ThresholdRequest = call.body
    limits = {key: request.get(key) for key in ("low", "high") if request.get(key) is not None}
    found = await act(call, "threshold", {"name": request["name"], **limits}, call.body_selector)
    return {"elements": sum(answer["elements"] for answer in found.answers.values()), "failed": failures(found)}


# ---- snapshots -----------------------------------------------------------------------------------


async def take_snapshot(call: Call) -> Snapshot:
    """Looks at all elements that the selector chooses at once: kernel, block, since when, last record.

    What did not answer within `deadline_ms` is named as silent.
    """
    request: SnapshotRequest = call.body
    deadline_ms = request.get("deadline_ms", 100)
    if not 1 <= deadline_ms <= MAX_DEADLINE_MS:
        raise RefusedError("malformed", f"deadline_ms is {deadline_ms}; allowed: 1 to {MAX_DEADLINE_MS}")
    timeout_s = 5 + deadline_ms / 1000
    found = await act(call, "snapshot", {"deadline_ms": deadline_ms}, call.body_selector, timeout_s)
    kept = call.centre.snapshots.add(
        call.centre.cluster.clocks.real_ns(), call.caller.name, str(call.body_selector), found.answers, failures(found)
    )
    call.centre.record_snapshot(kept)
    return call.centre.snapshots.get(kept["id"], call.scope) or {**kept, "hosts": {}, "failed": []}


async def snapshots(call: Call) -> list[SnapshotSummary]:
    """The last snapshots, newest first."""
    return [summary(kept) for kept in call.centre.snapshots.all(call.scope)]


def _kept(call: Call, name: str) -> Snapshot:
    """:raise RefusedError: "unknown": there is none of this number for the caller."""
    text = call.path[name]
    found = call.centre.snapshots.get(int(text), call.scope) if text.isdecimal() and len(text) < 18 else None
    if found is None:
        there = ", ".join(str(kept["id"]) for kept in call.centre.snapshots.all(call.scope)) or "none"
        raise RefusedError("unknown", f"no snapshot {text:.40}; there is: {there}")
    return found


async def snapshot(call: Call) -> Snapshot:
    """One snapshot."""
    return _kept(call, "id")


async def snapshot_diff(call: Call) -> SnapshotDiff:
    """What has changed between two snapshots, and which busy elements have not come further."""
    return diff(_kept(call, "a"), _kept(call, "b"))


ROUTES = (
    Route("GET", "/stats", stats, list[HostedStat], query=(SELECTOR,), tags=("figures",)),
    Route("POST", "/thresholds", threshold, ElementsAnswer, "operate", body=ThresholdRequest, tags=("figures",)),
    Route("POST", "/snapshots", take_snapshot, Snapshot, body=SnapshotRequest, tags=("snapshots",)),
    Route("GET", "/snapshots", snapshots, list[SnapshotSummary], tags=("snapshots",)),
    Route("GET", "/snapshots/{id}", snapshot, Snapshot, tags=("snapshots",)),
    Route("GET", "/snapshots/{a}/diff/{b}", snapshot_diff, SnapshotDiff, tags=("snapshots",)),
)
