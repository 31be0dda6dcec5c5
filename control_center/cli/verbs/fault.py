"""Lists faults of processing elements and GPUs, how often each occurred, and what to do about it; clears them."""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, report_failures, selector
from control_center.cli.link import Object, Wanted
from control_center.cli.options import add_actions
from control_center.cli.output import clock, date, event_line, one_line
from control_center.cli.problems import OK, RefusalError, UsageError
from virtio_proto.control.selector import SelectorError, parse
from virtio_proto.control.verbs.faults import ClearFaults, Faults
from virtio_proto.control.verbs.hosts import Topology

EXAMPLES: Final = """\
  vgcctl fault                       open faults, with advice
  vgcctl fault ls vm=web1 --cleared  and those that were cleared
  vgcctl fault clear h1/7            one fault
  vgcctl fault clear vm=web1         all faults of a VM
  vgcctl fault watch                 new faults as they occur
"""
LIVE: Final = True


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser, needed=False)
    ls = action("ls", "list faults (the default)")
    ls.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")
    ls.add_argument("--cleared", action="store_true", help="list cleared faults, too")
    clear = action("clear", "mark faults as dealt with")
    clear.add_argument("faults", nargs="+", metavar="FAULT|SELECTOR", help="host/number, or one selector")
    watch = action("watch", "print new faults as they occur")
    watch.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")


async def run(context: Context) -> int:
    given = context.given
    match given.action:
        case "clear":
            return await _clear(context, given.faults)
        case "watch":
            await _watch(context, given.selector)
        case _:
            text = getattr(given, "selector", "")
            found = await context.link.ask(Faults.Request(selector=text, cleared=getattr(given, "cleared", False)))
            if not found:
                await _check_vm(context, text)
            _show(context, found)
    return OK


async def _check_vm(context: Context, text: str) -> None:
    """:raise RefusalError: no VM matches the selector: an unknown VM must not read as a VM without faults."""
    chosen = parse(text)
    hosts = [host for host in await context.link.ask(Topology.Request()) if chosen.matches_host(host["host"])]
    names = [f"{host['host']}/{vm['vm']}" for host in hosts for vm in host["vms"]]
    if chosen.vm != "*" and not any(chosen.matches_vm(vm["vm"]) for host in hosts for vm in host["vms"]):
        raise RefusalError(f"no VM matches {text!r}; known: {', '.join(names[:16]) or 'none'}", "unknown")


def _show(context: Context, faults: list[Object]) -> None:
    out = context.out
    if out.as_json:
        out.json(faults)
        return
    for fault in faults:
        where = "/".join(str(part) for part in (fault["host"], fault["vm"], fault["pe"]) if part not in (None, ""))
        xid = f" Xid {fault['xid']}" if fault["xid"] is not None else ""
        often = f", {fault['count']} times since {date(fault['time_ns'])}" if fault["count"] > 1 else ""
        cleared = " (cleared)" if fault["cleared"] else ""
        head = out.paint(f"{fault['kind']}{xid}", "grey" if fault["cleared"] else "red")
        out.line(f"{fault['fault']}  {where}  {head}  {clock(fault['last_ns'])}{often}{cleared}")
        out.line(f"    {one_line(fault['text'])}")
        if fault["advice"]:
            out.line(out.paint(f"    advice: {fault['advice']}", "green"))
    if not faults:
        out.line("no faults")


async def _clear(context: Context, names: list[str]) -> int:
    if any("=" in name for name in names):
        if len(names) > 1:
            raise UsageError(f"{' '.join(names)!r}; allowed: numbers of faults, or one selector")
        try:
            answer = await context.link.ask(ClearFaults.Request(selector=str(parse(names[0]))))
        except SelectorError as error:
            raise UsageError(str(error)) from None
    else:
        answer = await _clear_named(context, names)
    if context.out.as_json:
        context.out.json({"cleared": answer["cleared"]})
    else:
        context.out.line(f"{answer['cleared']} cleared")
    return report_failures(context, answer)


async def _clear_named(context: Context, names: list[str]) -> Object:
    """Has each host clear its own; one that refuses is told of when others did not.

    :raise RefusalError: none of them did.
    """
    answer: Object = {"cleared": 0, "failed": []}
    refusals: list[RefusalError] = []
    for host, numbers in (await _by_host(context, names)).items():
        try:
            answer["cleared"] += (await context.link.ask(ClearFaults.Request(faults=numbers), host))["cleared"]
        except RefusalError as error:
            refusals.append(error)
            answer["failed"].append({"host": host, "error": str(error)})
    if refusals and not answer["cleared"]:
        raise refusals[0]
    return answer


async def _by_host(context: Context, names: list[str]) -> dict[str, list[int]]:
    """:raise UsageError: one is no fault, or has no host where there are several."""
    found: dict[str, list[int]] = {}
    for name in names:
        host, _, number = name.rpartition("/")
        hosts = [] if host else [item["host"] for item in await context.link.ask(Topology.Request())]
        if not number.isdecimal() or len(hosts) > 1:
            raise UsageError(f"fault {name!r}; allowed: host/number")
        found.setdefault(host or hosts[0], []).append(int(number))
    return found


async def _watch(context: Context, text: str) -> None:
    chosen = parse(text)
    async for message in context.link.stream(Wanted(events=True)):
        if message["type"] != "event" or message["event"] not in ("fault", "fault_cleared", "policy_acted"):
            continue
        if not (chosen.matches_host(message["host"]) and chosen.matches_vm(message["vm"] or "")):
            continue
        if context.out.as_json:
            context.out.json(message)
        elif message["event"] == "fault":
            number = f"{message['host']}/{message['detail'].get('fault')}"
            found = await context.link.ask(Faults.Request(cleared=True))
            _show(context, [fault for fault in found if str(fault["fault"]) == number] or [])
        else:
            context.out.line(event_line(message, context.out))
