"""One request to several hosts: narrowed to who asks, answers put together, refusals listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from control_center.cluster import Gathered
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.route import Call
from control_center.snapshots import HostError
from virtio_proto.control.selector import Selector


def failures(found: Gathered[Any]) -> list[HostError]:
    """The hosts that did not answer as they should."""
    return [
        {"host": host, "error": f"{error.kind}: {error.text.removeprefix(f'{host}: ')}"}
        for host, error in sorted(found.failed.items())
    ]


def for_host(selector: Selector) -> str:
    """The selector as a daemon is told it, which knows of no other hosts."""
    return str(replace(selector, host="*"))


def narrowed(call: Call, selector: Selector) -> dict[Host, Selector]:
    """The hosts that a selector chooses, each with what of it the caller may touch.

    :raise RefusedError: "unknown": nothing is left.
    """
    found: dict[Host, Selector] = {}
    for host in _meant(call.chosen(selector), selector):
        narrow = call.scope.narrow(selector, host.name, host.vms)
        if narrow is not None:
            found[host] = narrow
    if not found:
        raise RefusedError("unknown", f"nothing here matches {str(selector) or 'that'!r}; there is: {_there(call)}")
    return found


def _meant(hosts: list[Host], selector: Selector) -> list[Host]:
    """Those that have a VM that is named, and if none does those of which no VM is known: they may be gone for now."""
    if selector.vm == "*":
        return hosts
    having = [host for host in hosts if any(selector.matches_vm(vm) for vm in host.vms)]
    return having or [host for host in hosts if not host.vms]


def _there(call: Call) -> str:
    names = [
        f"{host.name}/{vm}" for host in call.chosen(Selector()) for vm in host.vms if call.scope.sees(host.name, vm)
    ]
    rest = f" and {len(names) - 16} more" if len(names) > 16 else ""
    return (", ".join(names[:16]) or "no VM") + rest


async def look(
    call: Call, verb: str, fields: Mapping[str, Any] | None = None, timeout_s: float = 5.0
) -> dict[str, Any]:
    """What the hosts of the query's selector answer to a verb that changes nothing; those that do not are left out.

    The selector goes along. What the caller may not see is in the answers still: it is for the route to leave out.
    """
    chosen = [host for host in call.chosen(call.selector) if host.state != "down"]
    asked = {host: {"selector": for_host(call.selector), **(fields or {})} for host in chosen}
    return (await call.centre.cluster.gather(asked, verb, timeout_s)).answers


async def act(
    call: Call, verb: str, fields: Mapping[str, Any], selector: Selector, timeout_s: float = 30.0
) -> Gathered[Any]:
    """Has all hosts that a selector chooses do something, as far as the caller may.

    :raise RefusedError: none of them did; the first refusal.
    """
    chosen = narrowed(call, selector)
    asked = {host: {"selector": for_host(narrow), **fields} for host, narrow in chosen.items()}
    found = await call.centre.commands(call.caller, asked, verb, timeout_s)
    found.or_raise()
    return found
