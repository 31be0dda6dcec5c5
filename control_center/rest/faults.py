"""Route that clears faults: of a selector, or of several hosts by their ids."""

from __future__ import annotations

from typing import Any

from control_center.cluster import Gathered
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.fanout import act, merged
from control_center.rest.route import Call
from virtio_proto.control.verbs.faults import ClearFaults, Faults


async def clear_faults(call: Call) -> Any:
    """Clears the faults of a selector, or those with the ids ``host/number``."""
    body = call.given
    assert isinstance(body, ClearFaults.Body)
    if body.ids is None:
        found = await act(call, ClearFaults.Request(selector=body.selector or ""))
    else:
        found = await _clear_named(call, body.ids)
    return merged(call, found)


async def _clear_named(call: Call, ids: list[str]) -> Gathered[Any]:
    by_host: dict[Host, list[int]] = {}
    for name in ids:
        host_name, slash, number = name.rpartition("/")
        if not slash or not number.isdecimal() or len(number) > 18:
            raise RefusedError("malformed", f"fault {name!r:.80}; allowed: host/number")
        by_host.setdefault(call.host(host_name), []).append(int(number))
    for host, numbers in by_host.items():
        await _check_visible(call, host, numbers)
    asked = {host: ClearFaults.Request(faults=numbers) for host, numbers in by_host.items()}
    found = await call.centre.commands(call.caller, asked)
    found.or_raise()
    return found


async def _check_visible(call: Call, host: Host, numbers: list[int]) -> None:
    """:raise RefusedError: "unknown": a fault does not exist, or the caller does not see its VM."""
    if call.scope.is_all:
        return
    listing = await host.ask(Faults.Request(cleared=True))
    visible = {info["fault"] for info in listing["faults"] if call.scope.sees(host.name, info["vm"])}
    for number in numbers:
        if number not in visible:
            raise RefusedError("unknown", f"{host.name}: no fault {number}")
