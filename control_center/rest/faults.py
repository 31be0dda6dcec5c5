"""Faults with what to do about them, and the policies that do it."""

from __future__ import annotations

from typing import Any

from control_center.cluster import Gathered
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.fanout import act, failures, look
from control_center.rest.model import ClearAnswer, ClearRequest, HostedFault, PoliciesRequest
from control_center.rest.route import SELECTOR, Call, Parameter, Route
from virtio_proto.control.api import FaultInfo, PolicyInfo

MAX_IDS = 10_000


def _hosted(host: str, info: FaultInfo) -> HostedFault:
    return {
        "fault": f"{host}/{info['fault']}",
        "host": host,
        "time_ns": info["time_ns"],
        "last_ns": info["last_ns"],
        "count": info["count"],
        "gpu": info["gpu"],
        "vm": info["vm"],
        "pe": info["pe"],
        "kind": info["kind"],
        "xid": info["xid"],
        "text": info["text"],
        "advice": info["advice"],
        "cleared": info["cleared"],
    }


async def faults(call: Call) -> list[HostedFault]:
    """Faults of kernels, elements and devices, newest first, each with what to do about it."""
    cleared = bool(call.query.get("cleared"))
    answers = await look(call, "faults", {"cleared": cleared})
    found = [
        _hosted(name, info)
        for name, answer in answers.items()
        for info in answer["faults"]
        if call.scope.sees(name, info["vm"]) and (cleared or not info["cleared"])
    ]
    return sorted(found, key=lambda fault: -fault["last_ns"])


async def clear_faults(call: Call) -> ClearAnswer:
    """Clears faults: those of a selector, or by their ids."""
    request: ClearRequest = call.body
    if ("selector" in request) == ("ids" in request):
        raise RefusedError("malformed", "the body has selector and ids, or neither; allowed: one of them")
    if "ids" in request:
        found = await _clear_named(call, request["ids"])
    else:
        found = await act(call, "clear_faults", {}, call.body_selector)
    return {"cleared": sum(answer["cleared"] for answer in found.answers.values()), "failed": failures(found)}


async def _clear_named(call: Call, ids: list[str]) -> Gathered[Any]:
    if len(ids) > MAX_IDS:
        raise RefusedError("malformed", f"{len(ids)} ids; allowed: {MAX_IDS}")
    by_host: dict[Host, list[int]] = {}
    for name in ids:
        host_name, slash, number = name.rpartition("/")
        if not slash or not number.isdecimal() or len(number) > 18:
            raise RefusedError("malformed", f"fault {name!r:.80}; allowed: host/number")
        by_host.setdefault(call.host(host_name), []).append(int(number))
    for host, numbers in by_host.items():
        await _check_visible(call, host, numbers)
    asked = {host: {"faults": numbers} for host, numbers in by_host.items()}
    found = await call.centre.commands(call.caller, asked, "clear_faults")
    found.or_raise()
    return found


async def _check_visible(call: Call, host: Host, numbers: list[int]) -> None:
    """:raise RefusedError: "unknown": a fault is of a VM that is not there for the caller."""
    if call.scope.is_all:
        return
    listing = await host.ask("faults", {"cleared": True})
    visible = {info["fault"] for info in listing["faults"] if call.scope.sees(host.name, info["vm"])}
    for number in numbers:
        if number not in visible:
            raise RefusedError("unknown", f"{host.name}: no fault {number}")


# ---- policies ------------------------------------------------------------------------------------


def _whole(call: Call) -> Host:
    """The host that the path names, for who may see all of it: policies are of the host."""
    host = call.host()
    if not call.scope.is_all:
        raise RefusedError("denied", f"policies of {host.name} are for those who may see all its VMs")
    return host


async def policies(call: Call) -> list[PolicyInfo]:
    """What a host does about faults."""
    found: list[PolicyInfo] = (await _whole(call).ask("policies"))["policies"]
    return found


async def set_policies(call: Call) -> list[PolicyInfo]:
    """Replaces what a host does about faults."""
    request: PoliciesRequest = call.body
    fields = {"policies": request["policies"]}
    found: list[PolicyInfo] = (await call.centre.command(call.caller, _whole(call), "set_policies", fields))["policies"]
    return found


_CLEARED = Parameter("cleared", "flag", "Those that were cleared, too.")
_POLICIES = "/policies/{host}"
ROUTES = (
    Route("GET", "/faults", faults, list[HostedFault], query=(SELECTOR, _CLEARED), tags=("faults",)),
    Route("POST", "/faults/clear", clear_faults, ClearAnswer, "operate", body=ClearRequest, tags=("faults",)),
    Route("GET", _POLICIES, policies, list[PolicyInfo], tags=("faults",)),
    Route("PUT", _POLICIES, set_policies, list[PolicyInfo], "admin", body=PoliciesRequest, tags=("faults",)),
)
