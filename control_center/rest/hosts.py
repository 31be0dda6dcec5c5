"""Registered hosts and their load."""

from __future__ import annotations

from control_center.encoding import load_json
from control_center.hosts_view import HostInfo, host_info
from control_center.rest.model import LoadAnswer
from control_center.rest.route import SELECTOR, Call, JsonText, Route


async def hosts(call: Call) -> list[HostInfo]:
    """All registered hosts with their GPUs and VMs.

    A host that does not answer is there with what was last known of it, and says since when.
    """
    return [host_info(host, call.scope) for host in call.chosen(call.selector)]


async def load(call: Call) -> JsonText:
    """The load of hosts, GPUs, VMs and processing elements during the last second."""
    chosen = call.chosen(call.selector)
    time_ns = call.centre.cluster.clocks.real_ns()
    return JsonText(load_json(chosen, time_ns, call.scope, call.query.get("selector")))


ROUTES = (
    Route("GET", "/hosts", hosts, list[HostInfo], query=(SELECTOR,), tags=("hosts",)),
    Route("GET", "/load", load, LoadAnswer, query=(SELECTOR,), tags=("hosts",)),
)
