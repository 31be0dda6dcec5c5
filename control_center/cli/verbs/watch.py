"""Live view: how busy every host, GPU, VM and processing element (PE) is, and migrations that are under way.

Counters (perf at level critical) are open while it runs. One character is one PE, from idle (space) to busy (full block).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from itertools import groupby
from typing import Final

from control_center.cli.context import Context, add_selector, opened, positive
from control_center.cli.link import Object
from control_center.cli.output import Output, clock, ranges
from control_center.cli.problems import OK, CommandError
from control_center.cli.times import length_s
from control_center.cli.verbs.stat import perf_of
from virtio_proto.control.records import Level
from virtio_proto.control.selector import parse
from virtio_proto.control.verbs.hosts import Load, Topology
from virtio_proto.control.verbs.migrations import Migrations

EXAMPLES: Final = """\
  vgcctl watch
  vgcctl watch 'host=h1' --every 2s
  vgcctl watch --count 1 --json        one picture, for a program
"""
FIGURES: Final = ("host_load", "gpu_load", "gpu_pes_used", "vm_load", "vm_pes_used")
LIVE: Final = True
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_BAR_CHARS: Final = 24
_HOT: Final = ((0.85, "red"), (0.6, "yellow"), (0.0, "green"))
_MAX_LINE: Final = 132
"""PEs per line."""


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    parser.add_argument(
        "--every", type=length_s, default=1.0, metavar="TIME", help="interval between two pictures (default: 1s)"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="end after N pictures")


async def run(context: Context) -> int:
    given = context.given
    async with contextlib.AsyncExitStack() as stack:
        try:
            fields = {"level": int(Level.CRITICAL)}
            await stack.enter_async_context(opened(context, perf_of(given.selector), (), fields))
        except CommandError as error:  # the view role may not open channels, but sees the counters of open ones
            context.out.note(f"counters could not be opened: {error}")
        shown = 0
        while shown != given.count:
            await _picture(context, given.selector)
            shown += 1
            if shown != given.count:
                await asyncio.sleep(given.every)
    return OK


async def _picture(context: Context, text: str) -> None:
    load = await context.link.ask(Load.Request(selector=text))
    hosts = await context.link.ask(Topology.Request())
    migrations = await context.link.ask(Migrations.Request())
    if context.out.as_json:
        context.out.json({"load": load, "hosts": hosts, "migrations": migrations})
        return
    chosen = parse(text)
    lines = [f"{clock(load['time_ns'])}"]
    for host in hosts:
        if chosen.matches_host(host["host"]):
            lines += _host(context.out, host, load["hosts"].get(host["host"]))
    lines += [_migration(one) for one in migrations if one["state"] not in ("done", "failed")]
    context.out.clear_screen()
    context.out.line("\n".join(lines))


def _host(out: Output, host: Object, load: Object | None) -> list[str]:
    if load is None or host["state"] == "down":
        return [out.paint(f"{host['host']}  {host['state']}", "grey")]
    stale = out.paint("  stale", "yellow") if host["state"] == "stale" else ""
    lines = [f"{out.paint(host['host'], 'bold')}{stale}  {bar(out, load['host'])}"]
    for gpu in host["gpus"]:
        lines.append(
            f"  gpu {gpu['gpu']:<4} {bar(out, load['gpus'].get(gpu['gpu'], 0.0))}  "
            f"{_used(load['gpu_pes_used'].get(gpu['gpu']), gpu['pes'])}  {gpu['name']}"
        )
        for vm in host["vms"]:
            if vm["gpu"] == gpu["gpu"] and vm["vm"] in load["vms"]:
                lines += _vm(out, vm, load)
    return lines


def _vm(out: Output, vm: Object, load: Object) -> list[str]:
    confined = "" if vm["confined_to"] is None else f"  on {ranges(vm['confined_to'])}"
    about = f"{vm['state']}, {vm['in_flight']} in flight, {vm['requests_done']} done{confined}"
    used = _used(load["vm_pes_used"].get(vm["vm"]), vm["pes"])
    elements: bytes = load["pes"].get(vm["vm"], b"")
    lines = [f"    {vm['vm']:<16} {bar(out, load['vms'][vm['vm']])}  {used}  {about}"]
    parts = (elements[at : at + _MAX_LINE] for at in range(0, len(elements), _MAX_LINE))
    return [*lines, *(f"      [{heat(out, part)}]" for part in parts)]


def _used(pes_used: float | None, pes: int) -> str:
    return "" if pes_used is None else f"{pes_used:.1f} of {pes} PEs"


def _colour(part: float) -> str:
    return next(colour for bound, colour in _HOT if part >= bound)


def bar(out: Output, part: float) -> str:
    """Bar with a percentage; `part` is 0 to 1."""
    part = min(1.0, max(0.0, part))
    full = round(part * _BAR_CHARS)
    return f"{out.paint('█' * full, _colour(part))}{'·' * (_BAR_CHARS - full)} {100 * part:3.0f} %"


def heat(out: Output, elements: bytes) -> str:
    """One character per PE; a value of 0 is idle, 255 busy."""
    runs = groupby(elements, key=lambda value: _colour(value / 255))
    return "".join(out.paint("".join(_BLOCKS[-(-value * 8 // 255)] for value in run), colour) for colour, run in runs)


def _migration(one: Object) -> str:
    steps = ("starting", "quiescing", "copying", "restoring", "done")
    done = steps.index(one["state"])
    bar_ = "#" * done + "." * (4 - done)
    return f"migrating {one['host']}/{one['vm']}: {bar_} {one['state']} {one['source']} -> {one['target']}"
