"""Opens channels, prints their records as they come, and closes the channels at Ctrl-C.

Each line is ``host/vm/pe fn level time text``. A note says how many records were lost.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from typing import Final

from control_center.cli.context import Context, add_selector, add_terms, opened, positive, terms
from control_center.cli.link import Object, Wanted
from control_center.cli.output import Output, event_line, record_line
from control_center.cli.problems import OK
from control_center.cli.times import length_s

EXAMPLES: Final = """\
  vgcctl tail 'gpu=*,pe=0-3,fn=log,vm=web1'      logs of four processing elements
  vgcctl tail vm=web1                            prints, logs and faults of a VM
  vgcctl tail 'fn=perf,pe=0' --level info        every block of a processing element
  vgcctl tail fn=log --json | jq .text
"""
LIVE: Final = True
_FUNCTIONS: Final = ("stdio", "log", "fault")
"""Functions that are opened if the selector names none."""


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    add_terms(parser)
    parser.add_argument("--events", action="store_true", help="print events of the hosts, too")
    parser.add_argument("--count", type=positive, metavar="N", help="end after N records")
    parser.add_argument("--for", dest="time", type=length_s, metavar="TIME", help="end after this time")


async def run(context: Context) -> int:
    given = context.given
    async with opened(context, given.selector, _FUNCTIONS, terms(given)) as instances:
        wanted = Wanted([item["instance"] for item in instances], events=given.events)
        try:
            async with asyncio.timeout(given.time):
                await _print(context, context.link.stream(wanted), given.count)
        except TimeoutError:
            pass
    return OK


async def _print(context: Context, stream: AsyncIterator[Object], count: int | None) -> None:
    """Prints messages until the stream ends or `count` records are printed."""
    printed = 0
    lost: dict[tuple[str, str, int, str], int] = {}
    async for message in stream:
        show(context.out, message)
        if message["type"] == "record":
            _say_lost(context, message, lost)
            printed += context.out.as_json or not is_input(message)
            if printed == count:
                return


def is_input(record: Object) -> bool:
    """True if the record says that a kernel waits for input or took some. People do not want to see these, which may
    come for every byte; programs and the replay need them.
    """
    return record["fn"] == "stdio" and record["kind"] in ("wants", "took")


def show(out: Output, message: Object) -> None:
    """Prints one message as a line; records of `is_input` are printed for programs only."""
    if out.as_json:
        out.json(message)
    elif message["type"] == "record":
        if not is_input(message):
            out.line(record_line(message, out))
    elif message["type"] == "event":
        out.line(event_line(message, out))
    elif message["type"] == "host":
        out.note(f"{message['host']} is {message.get('state', 'changed')}")


def _say_lost(context: Context, row: Object, lost: dict[tuple[str, str, int, str], int]) -> None:
    key = (row["host"], row["vm"], row["pe"], row["fn"])
    if (new := row["lost"] - lost.get(key, 0)) > 0:
        where = f"{row['host']}/{row['vm']}/{row['pe']} {row['fn']}"
        context.out.note(f"{where}: {new} records lost, {row['lost']} in all")
    lost[key] = row["lost"]
