"""VMs that hosts serve: lists them, reads their configuration again, removes one.

A removed VM is served until its QEMU ends, and comes back with the next reload if the configuration still has it.
"""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, find_vm, report_failures
from control_center.cli.options import add_actions
from control_center.cli.problems import OK
from virtio_proto.control.verbs.hosts import Topology
from virtio_proto.control.verbs.vms import ReloadVms, RemoveVm, VmChanges

EXAMPLES: Final = """\
  vgcctl vm list                    VMs of all hosts
  vgcctl vm show web1               all that is known of one
  vgcctl vm reload                  have the daemons read their configuration again, as SIGHUP does
  vgcctl vm remove web1             serve it no more once its QEMU has ended
  vgcctl vm remove h1/web1 --now    serve it no more, which ends its QEMU
"""
_NOW: Final = "do not wait for the end of QEMU, which ends without its device"


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    action("list", "list VMs")
    action("show", "show a VM").add_argument("vm", metavar="VM", help="its name, or host/name")
    reload = action("reload", "have daemons read their configuration again")
    reload.add_argument("host", nargs="?", metavar="HOST", help="one host (default: all)")
    reload.add_argument("--now", action="store_true", help=_NOW)
    remove = action("remove", "serve a VM no more")
    remove.add_argument("vm", metavar="VM", help="its name, or host/name")
    remove.add_argument("--now", action="store_true", help=_NOW)


async def run(context: Context) -> int:
    match context.given.action:
        case "list":
            return await _list(context)
        case "show":
            return await _show(context)
        case "reload":
            return await _reload(context)
        case _:
            return await _remove(context)


async def _list(context: Context) -> int:
    hosts = await context.link.ask(Topology.Request())
    vms = [{"host": host["host"], **vm} for host in hosts for vm in host["vms"]]
    if context.out.as_json:
        context.out.json(vms)
    else:
        context.out.rows(("host", "vm", "gpu", "pes", "state", "generation", "requests_done"), vms)
    return OK


async def _show(context: Context) -> int:
    host, vm = await find_vm(context.link, context.given.vm)
    if context.out.as_json:
        context.out.json({"host": host, **vm})
    else:
        context.out.rows(
            ("what", "value"), [{"what": key, "value": value} for key, value in {"host": host, **vm}.items()]
        )
    return OK


async def _reload(context: Context) -> int:
    answer = await context.link.ask(ReloadVms.Request(now=context.given.now), context.given.host)
    if context.out.as_json:
        context.out.json(answer)
    else:
        for host, changes in answer["hosts"].items():
            context.out.note(f"{host}: {_told(changes)}")
    return report_failures(context, answer)


async def _remove(context: Context) -> int:
    host, vm = await find_vm(context.link, context.given.vm)
    changes = await context.link.ask(RemoveVm.Request(vm=vm["vm"], now=context.given.now), host)
    if context.out.as_json:
        context.out.json(changes)
    else:
        context.out.note(f"{host}: {_told(changes)}")
    return OK


def _told(changes: VmChanges) -> str:
    parts = [f"{kind} {', '.join(changes[kind])}" for kind in ("added", "removed", "changed") if changes[kind]]
    waiting = f" ({', '.join(changes['waiting'])} when QEMU ends)" if changes["waiting"] else ""
    return ("; ".join(parts) or "nothing has changed") + waiting
