"""What has gone wrong on processing elements and GPUs, how often, and what to do about it."""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, selector, told
from control_center.cli.link import Object, Wanted
from control_center.cli.options import add_actions
from control_center.cli.output import clock, date, event_line, one_line
from control_center.cli.problems import OK, RefusalError, UsageError
from virtio_proto.control.selector import SelectorError, parse

EXAMPLES: Final = """\
  vgcctl fault                       all that is not cleared, with advice
  vgcctl fault ls vm=web1 --cleared  with history
  vgcctl fault clear h1/7            one
  vgcctl fault clear vm=web1         all of a VM
  vgcctl fault watch                 as they come
"""
LIVE: Final = True


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser, needed=False)
    ls = action("ls", "list them (the default)")
    ls.add_argument("selector", type=selector, nargs="?", default="", metavar="SELECTOR")
    ls.add_argument("--cleared", action="store_true", help="those that were cleared as well")
    clear = action("clear", "say that they have been dealt with")
    clear.add_argument("faults", nargs="+", metavar="FAULT|SELECTOR", help="host/number, or one selector")
    watch = action("watch", "print them as they come")
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
            found = await context.link.faults(text, cleared=getattr(given, "cleared", False))
            if not found:
                await _check_vm(context, text)
            _show(context, found)
    return OK


async def _check_vm(context: Context, text: str) -> None:
    """:raise RefusalError: there is no VM that the selector names: no faults of nobody are no good news."""
    chosen = parse(text)
    hosts = [host for host in await context.link.hosts() if chosen.matches_host(host["host"])]
    names = [f"{host['host']}/{vm['vm']}" for host in hosts for vm in host["vms"]]
    if chosen.vm != "*" and not any(chosen.matches_vm(vm["vm"]) for host in hosts for vm in host["vms"]):
        raise RefusalError(f"no VM matches {text!r}; there is: {', '.join(names[:16]) or 'none'}", "unknown")


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
            answer = await context.link.clear_faults(str(parse(names[0])), ())
        except SelectorError as error:
            raise UsageError(str(error)) from None
    else:
        answer = await context.link.clear_faults("", names)
    if context.out.as_json:
        context.out.json({"cleared": answer["cleared"]})
    else:
        context.out.line(f"{answer['cleared']} cleared")
    return told(context, answer)


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
            found = await context.link.faults("", cleared=True)
            _show(context, [fault for fault in found if str(fault["fault"]) == number] or [])
        else:
            context.out.line(event_line(message, context.out))
