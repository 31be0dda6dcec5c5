"""Where VMs' work runs: migrations, confinement to elements, balance, and workers that are replaced."""

from __future__ import annotations

from typing import Any

from control_center.errors import RefusedError
from control_center.host import Host
from control_center.rest.fanout import failures
from control_center.rest.model import (
    BalanceAnswer,
    BalanceRequest,
    ConfineRequest,
    Done,
    HostedMigration,
    MigrationRequest,
)
from control_center.rest.route import Call, Route
from virtio_proto.control.api import MigrationInfo
from virtio_proto.control.selector import Selector

MOVING_S = 600.0
"""Until a move is given up by who waits for it; it goes on at the host."""


def _vm(call: Call, host: Host, vm: str) -> str:
    """:raise RefusedError: "unknown": the host has no such VM for the caller."""
    there = [name for name in host.vms if call.scope.sees(host.name, name)]
    if vm not in there:
        raise RefusedError("unknown", f"{host.name} has no VM {vm:.80}; there is: {', '.join(there[:16]) or 'none'}")
    return vm


def _hosted(host: str, info: MigrationInfo) -> HostedMigration:
    return {**info, "host": host}


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


async def migrate(call: Call) -> HostedMigration:
    """Moves a VM's work to another GPU, or to other elements, without the guest noticing."""
    request: MigrationRequest = call.body
    host = call.host(request["host"])
    fields = _given(vm=_vm(call, host, request["vm"]), gpu=request.get("gpu"), pes=request.get("pes"))
    info = await call.centre.command(call.caller, host, "migrate", fields, MOVING_S)
    return _hosted(host.name, info)


async def confine(call: Call) -> HostedMigration:
    """Confines a VM's work to some of its elements, or lets it use all of them again."""
    request: ConfineRequest = call.body
    host = call.host(request["host"])
    fields = {"vm": _vm(call, host, request["vm"]), "pes": request.get("pes")}
    info = await call.centre.command(call.caller, host, "confine", fields, MOVING_S)
    return _hosted(host.name, info)


async def balance(call: Call) -> BalanceAnswer:
    """What the load strategy would move where; with `apply` it does."""
    request: BalanceRequest = call.body
    if not call.scope.is_all:
        raise RefusedError("denied", "balance concerns all VMs of a host; allowed: those who may see them")
    name = request.get("host")
    hosts = [call.host(name)] if name is not None else call.chosen(Selector())
    asked = {host: {"apply": request.get("apply", False)} for host in hosts}
    found = await call.centre.commands(call.caller, asked, "balance", MOVING_S)
    found.or_raise()
    moves = [{**move, "host": host} for host, answer in sorted(found.answers.items()) for move in answer["moves"]]
    return {"moves": moves, "failed": failures(found)}  # type: ignore[typeddict-item]


async def migrations(call: Call) -> list[HostedMigration]:
    """Moves that are under way or were made, newest first."""
    hosts = [host for host in call.chosen(Selector()) if host.state != "down"]
    found = await call.centre.cluster.gather({host: {} for host in hosts}, "migrations", 5.0)
    moves = [
        _hosted(name, info)
        for name, answer in found.answers.items()
        for info in answer["migrations"]
        if call.scope.sees(name, info["vm"])
    ]
    return sorted(moves, key=lambda move: -move["started_ns"])


async def _worker(call: Call, verb: str) -> Done:
    host = call.host()
    await call.centre.command(call.caller, host, verb, {"vm": _vm(call, host, call.path["vm"])})
    return {}


async def reset(call: Call) -> Done:
    """Replaces a VM's worker; what runs in it ends."""
    return await _worker(call, "reset_worker")


async def quiesce(call: Call) -> Done:
    """Has a VM's worker take no new requests until `resume`."""
    return await _worker(call, "quiesce")


async def resume(call: Call) -> Done:
    """Has a quiesced worker take requests again."""
    return await _worker(call, "resume")


_WORKER = "/workers/{host}/{vm}"
ROUTES = (
    Route("GET", "/migrations", migrations, list[HostedMigration], tags=("load",)),
    Route("POST", "/migrations", migrate, HostedMigration, "operate", body=MigrationRequest, tags=("load",)),
    Route("POST", "/confine", confine, HostedMigration, "operate", body=ConfineRequest, tags=("load",)),
    Route("POST", "/balance", balance, BalanceAnswer, "operate", body=BalanceRequest, tags=("load",)),
    Route("POST", _WORKER + "/reset", reset, Done, "operate", tags=("load",)),
    Route("POST", _WORKER + "/quiesce", quiesce, Done, "operate", tags=("load",)),
    Route("POST", _WORKER + "/resume", resume, Done, "operate", tags=("load",)),
)
