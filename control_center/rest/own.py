"""What the control system itself costs, and who asks."""

from __future__ import annotations

from control_center import __version__
from control_center.rest.fanout import failures
from control_center.rest.model import CentreInfo, SelfAnswer
from control_center.rest.route import SELECTOR, Call, Route
from control_center.usage import memory_bytes


def _centre(call: Call) -> CentreInfo:
    hosts = call.centre.cluster.visible(call.scope)
    return {
        "version": __version__,
        "time_ns": call.centre.cluster.clocks.real_ns(),
        "cpu_percent": call.centre.usage.cpu_percent(),
        "memory_bytes": memory_bytes(),
        "hosts": len(hosts),
        "hosts_up": sum(host.state == "up" for host in hosts),
        "streams": len(call.centre.hub),
    }


async def own(call: Call) -> SelfAnswer:
    """What the control system costs on each host and here, what is recorded, and who asks.

    Who may not see a whole host gets no figures of it.
    """
    hosts = [host for host in call.chosen(call.selector) if host.state != "down" and call.scope.is_all]
    found = await call.centre.cluster.gather({host: {} for host in hosts}, "self", 5.0)
    recorder = call.centre.recorder
    return {
        "role": call.caller.role,
        "name": call.caller.name,
        "vms": None if call.scope.vms is None else sorted(call.scope.vms),
        "centre": _centre(call),
        "hosts": dict(sorted(found.answers.items())),
        "failed": failures(found),
        "recorder": recorder.status() if recorder is not None and call.scope.is_all else None,
    }


ROUTES = (Route("GET", "/self", own, SelfAnswer, query=(SELECTOR,), tags=("self",)),)
