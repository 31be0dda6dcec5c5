"""Routes about hosts that the control centre answers from its last polls, and about its own cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from control_center import __version__, health
from control_center.cluster import Gathered
from control_center.encoding import load_json
from control_center.hosts_view import host_info
from control_center.rest.fanout import failures, look
from control_center.rest.route import Call, JsonText
from control_center.usage import memory_bytes
from virtio_proto.control.api import CentreInfo, HostInfo, RecorderStatus, SelfInfo
from virtio_proto.control.verbs.hosts import SelfAnswer
from virtio_proto.control.verbs.status import Statuses


async def hosts(call: Call) -> list[HostInfo]:
    """Lists hosts with their last known topology."""
    return [host_info(host, call.scope) for host in call.chosen(call.selector)]


async def load(call: Call) -> JsonText:
    """Shows the last known load of each host, with bytes as base64."""
    chosen = call.chosen(call.selector)
    time_ns = call.centre.cluster.clocks.real_ns()
    return JsonText(load_json(chosen, time_ns, call.scope, call.query.get("selector")))


def _centre(call: Call) -> CentreInfo:
    visible = call.centre.cluster.visible(call.scope)
    return {
        "version": __version__,
        "time_ns": call.centre.cluster.clocks.real_ns(),
        "cpu_percent": call.centre.usage.cpu_percent(),
        "memory_bytes": memory_bytes(),
        "hosts": len(visible),
        "hosts_up": sum(host.state == "up" for host in visible),
        "streams": len(call.centre.hub),
        "dropped": call.centre.hub.dropped,
        "dropped_ns": call.centre.hub.dropped_ns,
    }


async def status(call: Call) -> Statuses:
    """Shows the status of hosts to callers that may see all VMs."""
    found = await look(call, call.asked) if call.scope.is_all else Gathered[Any]()
    merged: Statuses = call.verb.merged.of(found.answers, failures(found))
    return merged


def _problems(
    call: Call, centre: CentreInfo, recorder: RecorderStatus | None, found: Gathered[SelfInfo]
) -> Iterator[health.Problem]:
    """Problems of the control system itself, for callers that may see all VMs."""
    if not call.scope.is_all:
        return
    yield from health.of_recorder(recorder)
    yield from health.of_streams(centre)
    for host in call.centre.cluster.visible(call.scope):
        yield from health.of_link(host_info(host, call.scope))
    for name, info in sorted(found.answers.items()):
        yield from health.of_daemon(name, info)


async def own(call: Call) -> SelfAnswer:
    """Shows the cost of hosts and of the centre, and the caller's rights."""
    found = await look(call, call.asked) if call.scope.is_all else Gathered[Any]()
    centre = _centre(call)
    recorder = call.centre.recorder.status() if call.centre.recorder is not None and call.scope.is_all else None
    return {
        "role": call.caller.role,
        "name": call.caller.name,
        "vms": None if call.scope.vms is None else sorted(call.scope.vms),
        "centre": centre,
        "hosts": dict(sorted(found.answers.items())),
        "failed": failures(found),
        "recorder": recorder,
        "problems": [
            {"host": one.host, "what": one.what, "remedy": one.remedy}
            for one in _problems(call, centre, recorder, found)
        ],
    }
