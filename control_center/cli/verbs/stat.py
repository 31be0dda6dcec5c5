"""Counters of processing elements (PEs): blocks, warps, busy and stall time, faults, and kernels' own counters.

A PE counts while a perf or load channel is open on it; this command opens a perf channel while it runs. A user who may
not open channels sees what other users' channels count.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from control_center.cli.context import Context, add_selector, opened, positive
from control_center.cli.link import Object
from control_center.cli.output import duration
from control_center.cli.problems import OK, RefusalError
from control_center.cli.times import length_s
from virtio_proto.control.records import Level
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.hosts import Stat

EXAMPLES: Final = """\
  vgcctl stat vm=web1
  vgcctl stat 'host=h1,pe=0-7' --watch 2s
  vgcctl stat vm=web1 --json
"""
FIGURES: Final = ("busy", "stall", "busy_share")
LIVE: Final = True
_REPORTS: Final = 10
"""Reports that each PE makes before its counters are shown."""
_COLUMNS: Final = ("host", "vm", "pe", "blocks", "warps", "launches", "busy", "stall", "busy_share", "faults", "own")


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    parser.add_argument(
        "--watch", type=length_s, nargs="?", const=1.0, metavar="TIME", help="show again at this interval (default: 1s)"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="with --watch: end after N tables")
    parser.add_argument(
        "--for",
        dest="time",
        type=length_s,
        default=1.0,
        metavar="TIME",
        help="how long to count (default: 1s)",
    )


async def run(context: Context) -> int:
    given = context.given
    fields = {"level": int(Level.CRITICAL), "period_ms": _period_ms(given.watch or given.time)}
    try:
        await _counted(context, fields)
    except RefusalError as refusal:
        found = await context.link.ask(Stat.Request(selector=given.selector)) if refusal.kind == "denied" else []
        if not found:
            raise
        _show(context, found)
    return OK


async def _counted(context: Context, fields: Object) -> None:
    given = context.given
    async with opened(context, perf_of(given.selector), (), fields):
        if not given.watch:
            await asyncio.sleep(given.time)
            _show(context, await context.link.ask(Stat.Request(selector=given.selector)))
        shown = 0
        while given.watch and shown != given.count:
            await asyncio.sleep(given.watch)
            context.out.clear_screen()
            _show(context, await context.link.ask(Stat.Request(selector=given.selector)))
            shown += 1


def _period_ms(seconds: float) -> int:
    """Interval of reports, short enough that counters shown after `seconds` cover most of that time."""
    return min(1000, max(10, int(seconds * 1000 / _REPORTS)))


def perf_of(text: str) -> str:
    """Selector of the same PEs with the function perf."""
    chosen = parse(text)
    return str(Selector(chosen.host, chosen.gpu, chosen.vm, chosen.pe, ("perf",)))


def _show(context: Context, found: list[Object]) -> None:
    if context.out.as_json:
        context.out.json(found)
        return
    context.out.rows(_COLUMNS, [_line(stat) for stat in found])


def _line(stat: Object) -> Object:
    own = {**stat["counters"], **stat["gauges"]}
    return {
        **stat,
        "busy": duration(stat["busy_ns"]),
        "stall": duration(stat["stall_ns"]),
        "busy_share": f"{100 * stat['busy_share']:.1f} %",
        "own": own or None,
    }
