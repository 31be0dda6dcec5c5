"""Channels: function instances on processing elements, opened, changed, fed and closed while kernels run."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.fanout import act, failures, look
from control_center.rest.model import (
    CloseAnswer,
    HostedInstance,
    InputAnswer,
    InputRequest,
    OpenAnswer,
    OpenRequest,
    SetRequest,
)
from control_center.rest.route import SELECTOR, Call, Parameter, Route, parse_selector
from control_center.totals import totals_of
from virtio_proto.control.api import MAX_INPUT_BYTES, ChannelInfo, InstanceInfo
from virtio_proto.control.selector import Selector


def _hosted(
    host: str, info: InstanceInfo, channels: list[ChannelInfo], *, list_channels: bool = True
) -> HostedInstance:
    totals = info.get("totals")
    return {
        "instance": f"{host}/{info['instance']}",
        "host": host,
        "function": info["function"],
        "selector": info["selector"],
        "owner": info["owner"],
        "level": info["level"],
        "policy": info["policy"],
        "opened_ns": info["opened_ns"],
        "expires_ns": info["expires_ns"],
        "channels": channels if list_channels else [],
        "totals": totals_of(channels) if totals is None or channels else totals,
    }


def _vms(host: Host, info: InstanceInfo) -> set[str]:
    """The VMs that an instance is of; also those that have no worker, and so no channels, now."""
    try:
        selector = parse_selector(info["selector"])
    except RefusedError:  # what a daemon says that lies; it may be of any VM
        selector = Selector()
    named = {vm for vm in host.vms if selector.matches_vm(vm)}
    return named | {channel["vm"] for channel in info["channels"]}


def _visible(call: Call, host: Host, infos: list[InstanceInfo], *, totals: bool) -> Iterator[HostedInstance]:
    """Instances of VMs that the caller may see and wants, with those VMs' channels.

    Of one that is of others' VMs as well neither the selector nor the owner is told.
    """
    chosen = call.selector
    everything = call.scope.is_all and (chosen.gpu, chosen.vm, chosen.pe) == ("*", "*", None)
    for info in infos:
        if everything:
            yield _hosted(host.name, info, info["channels"], list_channels=not totals)
            continue
        vms = _vms(host, info)
        seen = {vm for vm in vms if call.scope.sees(host.name, vm)}
        channels = [
            channel
            for channel in info["channels"]
            if channel["vm"] in seen
            and chosen.matches_vm(channel["vm"])
            and chosen.matches_gpu(*host.names_of_gpu(channel["gpu"]))
            and chosen.matches_pe(channel["pe"])
        ]
        if channels or (not info["channels"] and any(chosen.matches_vm(vm) for vm in seen)):
            shown = _hosted(host.name, info, channels, list_channels=not totals)
            yield shown if seen == vms else {**shown, "selector": f"vm={'|'.join(sorted(seen))}", "owner": ""}


async def channels(call: Call) -> list[HostedInstance]:
    """Instances that are open, with their channels and what was counted on each.

    With `totals` the channels are summed up and not listed: a page that shows thousands of them asks for that.
    """
    totals = bool(call.query.get("totals"))
    whole = call.scope.is_all and (call.selector.gpu, call.selector.vm, call.selector.pe) == ("*", "*", None)
    answers = await look(call, "ls", {"totals": True} if totals and whole else {})
    found: list[HostedInstance] = []
    for name, answer in sorted(answers.items()):
        found += _visible(call, call.host(name), answer["instances"], totals=totals)
    return found


async def open_channels(call: Call) -> OpenAnswer:
    """Opens channels to all elements that the selector chooses: one instance per host.

    They belong to who asks. Without `ttl_s` and `keep` they last as long as the control centre's connection.
    """
    request: OpenRequest = call.body
    fields = {key: value for key, value in request.items() if key not in ("selector", "owner")}
    found = await act(call, "open", {**fields, "owner": call.caller.name}, call.body_selector)
    instances = []
    for name, info in sorted(found.answers.items()):
        host = call.host(name)
        host.opened(info["instance"], info["selector"])
        instances.append(_hosted(name, info, info["channels"]))
    return {"instances": instances, "failed": failures(found)}


# ---- one instance --------------------------------------------------------------------------------


async def _named(call: Call) -> tuple[Host, int]:
    """The instance that the path names.

    :raise RefusedError: "unknown": there is none for the caller; "denied": others' VMs have a part in it.
    """
    host = call.host()
    text = call.path["instance"]
    if not text.isdecimal() or len(text) > 18:
        raise RefusedError("malformed", f"instance {text!r:.40}; allowed: a number")
    if not call.scope.is_all:
        await _check_owned(call, host, int(text))
    return host, int(text)


async def _check_owned(call: Call, host: Host, number: int) -> None:
    listing = await host.ask("ls", {})
    vms = {vm for info in listing["instances"] if info["instance"] == number for vm in _vms(host, info)}
    if not any(call.scope.sees(host.name, vm) for vm in vms):
        raise RefusedError("unknown", f"{host.name}: no instance {number}")
    if not all(call.scope.sees(host.name, vm) for vm in vms):
        raise RefusedError(
            "denied", f"{host.name}/{number} is of other VMs, too; allowed: those who may see all of them"
        )


async def close_channels(call: Call) -> CloseAnswer:
    """Closes an instance; its channels are released while kernels run."""
    host, number = await _named(call)
    await call.centre.command(call.caller, host, "close", {"instance": number})
    return {"closed": [f"{host.name}/{number}"]}


async def set_channels(call: Call) -> HostedInstance:
    """Changes an instance's level or sampling, or gives it more time."""
    request: SetRequest = call.body
    host, number = await _named(call)
    info = await call.centre.command(call.caller, host, "set", {"instance": number, **request})
    return _hosted(host.name, info, info["channels"])


async def send_input(call: Call) -> InputAnswer:
    """Standard input for the elements of a stdio instance."""
    request: InputRequest = call.body
    host, number = await _named(call)
    fields: dict[str, Any] = {"instance": number, "data": _data(request)}
    fields |= {key: value for key, value in request.items() if key in ("pe", "vm", "eof") and value is not None}
    answer = await call.centre.command(call.caller, host, "send", fields)
    return {"elements": answer["elements"]}


def _data(request: InputRequest) -> bytes:
    """:raise RefusedError: "malformed": neither text nor base64, both, or too long."""
    if ("text" in request) == ("base64" in request) and not (request.get("eof") and "text" not in request):
        raise RefusedError("malformed", "input has text and base64, or neither; allowed: one of them, or eof alone")
    data = decoded(request["base64"], "base64") if "base64" in request else request.get("text", "").encode()
    if len(data) > MAX_INPUT_BYTES:
        raise RefusedError("malformed", f"input of {len(data)} bytes; allowed: {MAX_INPUT_BYTES} at once")
    return data


def decoded(text: str, name: str) -> bytes:
    """:raise RefusedError: "malformed": `text` is no base64."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise RefusedError("malformed", f"{name} is {text!r:.40}; allowed: base64") from None


_TOTALS = Parameter("totals", "flag", "Channels summed up per instance, not listed.")
_ONE = "/channels/{host}/{instance}"
ROUTES = (
    Route("GET", "/channels", channels, list[HostedInstance], query=(SELECTOR, _TOTALS), tags=("channels",)),
    Route("POST", "/channels", open_channels, OpenAnswer, "operate", body=OpenRequest, tags=("channels",)),
    Route("DELETE", _ONE, close_channels, CloseAnswer, "operate", tags=("channels",)),
    Route("PATCH", _ONE, set_channels, HostedInstance, "operate", body=SetRequest, tags=("channels",)),
    Route("POST", _ONE + "/input", send_input, InputAnswer, "operate", body=InputRequest, tags=("channels",)),
)
