"""Fan-out of a verb's request to daemons, and merging of their answers into the client's.

Requests are narrowed to the caller's scope; answers are merged by the verb's rule; refusals are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from control_center.centre import told
from control_center.cluster import Gathered
from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.route import Call
from virtio_proto.control.selector import Selector
from virtio_proto.control.verbs.base import HostError, Reach, Request, Selecting
from virtio_proto.control.verbs.channels import Ls, vms_of


async def answer(call: Call) -> Any:
    """Default handler of a verb's route: asks the daemons and merges their answers."""
    match call.verb.reach:
        case Reach.LOOK:
            found = await look(call, call.asked)
        case Reach.ELEMENTS:
            found = await act(call, call.asked)
        case Reach.HOSTS:
            found = await _whole_hosts(call, call.asked)
        case _:
            found = await _one_host(call, call.asked)
    return merged(call, found)


def merged(call: Call, found: Gathered[Any]) -> Any:
    """Merges the hosts' answers into the client's."""
    answers = {host: _own_rows(call, host, answer) for host, answer in found.answers.items()}
    return call.verb.merged.of(answers, failures(found))


def _own_rows(call: Call, host: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Removes rows about VMs that the caller does not see or has not selected from an answer."""
    chosen = call.selector if call.verb.reach == Reach.LOOK else Selector()
    if call.scope.is_all and chosen.vm == "*":
        return answer

    def is_own(row: Any) -> bool:
        if not isinstance(row, dict) or "vm" not in row:
            return True
        return call.scope.sees(host, row["vm"]) and chosen.matches_vm(row["vm"])

    return {key: list(filter(is_own, value)) if isinstance(value, list) else value for key, value in answer.items()}


def failures(found: Gathered[Any]) -> list[HostError]:
    """Lists the hosts that refused or did not answer."""
    return [
        {"host": host, "error": f"{error.kind}: {error.text.removeprefix(f'{host}: ')}"}
        for host, error in sorted(found.failed.items())
    ]


def for_host(request: Request, chosen: Selector) -> Request:
    """Request to a daemon, with the selector `chosen` without its host: a daemon knows no other hosts."""
    if not isinstance(request, Selecting):
        return request
    return msgspec.structs.replace(request, selector=str(replace(chosen, host="*")))


# ---- hosts that a selector names -----------------------------------------------------------------


async def look(call: Call, request: Request) -> Gathered[Any]:
    """Asks the hosts of the call's selector that are not down, with a verb that changes nothing.

    The answers still contain rows that the caller may not see.
    """
    chosen = [host for host in call.chosen(call.selector) if host.state != "down"]
    found = await call.centre.cluster.gather(dict.fromkeys(chosen, for_host(request, call.selector)))
    found.failed = {name: told(call.scope, call.host(name), error) for name, error in found.failed.items()}
    return found


async def act(call: Call, request: Selecting) -> Gathered[Any]:
    """Has all hosts of the request's selector carry out a command, for the VMs that the caller sees.

    :raise RefusedError: all hosts failed; the first refusal.
    """
    chosen = narrowed(call, request.chosen)
    found = await call.centre.commands(
        call.caller, {host: for_host(request, narrow) for host, narrow in chosen.items()}
    )
    found.or_raise()
    return found


def narrowed(call: Call, selector: Selector) -> dict[Host, Selector]:
    """Hosts of a selector, each with the selector narrowed to the VMs that the caller sees there.

    :raise RefusedError: "unknown": the selector matches no VM that the caller sees.
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
    """Hosts that have a selected VM. If no host has, those without known VMs: their topology may not be known yet."""
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


# ---- hosts that are named ------------------------------------------------------------------------


async def _whole_hosts(call: Call, request: Request) -> Gathered[Any]:
    """Has one host or all hosts carry out a command about all of their VMs.

    :raise RefusedError: "denied": the caller does not see all VMs; or all hosts failed, the first refusal.
    """
    if not call.scope.is_all:
        name = call.verb.name
        raise RefusedError("denied", f"{name} is about all VMs of a host; allowed: callers that see all VMs")
    hosts = [call.host()] if call.host_name is not None else call.chosen(Selector())
    found = await call.centre.commands(call.caller, dict.fromkeys(hosts, request))
    found.or_raise()
    return found


async def _one_host(call: Call, request: Any) -> Gathered[Any]:
    """Has the named host carry out a command.

    :raise RefusedError: the caller may not use the command there, or the host refused or did not answer.
    """
    host = call.host()
    match call.verb.reach:
        case Reach.VM:
            _check_vm(call, host, request.vm)
        case Reach.INSTANCE:
            await _check_owned(call, host, request.instance)
        case _ if not call.scope.is_all:
            name = call.verb.name
            raise RefusedError("denied", f"{name} is about all VMs of {host.name}; allowed: callers that see all VMs")
    if call.verb.role == "view":
        return Gathered({host.name: await host.ask(request)})
    return Gathered({host.name: await call.centre.command(call.caller, host, request)})


def _check_vm(call: Call, host: Host, vm: str) -> None:
    """:raise RefusedError: "unknown": the caller sees no such VM on the host."""
    there = [name for name in host.vms if call.scope.sees(host.name, name)]
    if vm not in there:
        raise RefusedError("unknown", f"{host.name} has no VM {vm:.80}; there is: {', '.join(there[:16]) or 'none'}")


async def _check_owned(call: Call, host: Host, number: int) -> None:
    """:raise RefusedError: "unknown": the caller sees no VM of the instance; "denied": it does not see all of them."""
    if call.scope.is_all:
        return
    listing = await host.ask(Ls.Request())
    there = [info for info in listing["instances"] if info["instance"] == number]
    vms = {vm for info in there for vm in vms_of(info, host.vms)}
    if not any(call.scope.sees(host.name, vm) for vm in vms):
        raise RefusedError("unknown", f"{host.name}: no instance {number}")
    if not all(call.scope.sees(host.name, vm) for vm in vms):
        raise RefusedError(
            "denied", f"{host.name}/{number} covers other VMs, too; allowed: callers that see all of them"
        )
