"""Moves the work of a VM to another GPU or other processing elements, without the guest noticing; confines it to some
of its elements; or balances the load of all VMs.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from control_center.cli.context import Context, find_vm, told
from control_center.cli.link import Object
from control_center.cli.output import clock, duration, size
from control_center.cli.problems import FAILED, OK, UsageError
from virtio_proto.control.selector import Selector, SelectorError, parse

EXAMPLES: Final = """\
  vgcctl migrate                               what was moved and what moves
  vgcctl migrate web1 --to gpu=1               to another GPU
  vgcctl migrate h1/web1 --to pe=0-3           to other elements
  vgcctl migrate web1 --confine 0-3            run on these from the next block on; all: on all again
  vgcctl migrate --balance                     what would be better; with --apply: do it
"""
_POLL_S: Final = 0.2
_COLUMNS: Final = ("host", "migration", "vm", "source", "target", "state", "began", "paused", "moved", "text")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vm", nargs="?", metavar="VM", help="its name, or host/name")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--to", metavar="WHERE", help="gpu=1, pe=0-3 or gpu=1,pe=0-3")
    what.add_argument("--confine", metavar="PES", help="0-3|8, or all")
    what.add_argument("--balance", action="store_true", help="compute the whole system's load and propose moves")
    parser.add_argument("--apply", action="store_true", help="with --balance: do it")
    parser.add_argument("--host", help="with --balance: of this host only")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is done")


async def run(context: Context) -> int:
    given = context.given
    if given.balance:
        answer = await context.link.balance(given.host, apply=given.apply)
        context.out.rows(("host", "vm", "source", "target", "reason", "migration"), answer["moves"])
        return told(context, answer)
    if given.vm is None:
        if given.to or given.confine:
            raise UsageError("which VM? allowed: vgcctl migrate VM --to WHERE")
        _show(context, await context.link.migrations())
        return OK
    if given.confine is None and given.to is None:
        raise UsageError(f"where to move {given.vm}? allowed: --to gpu=1, --to pe=0-3, --confine 0-3")
    move = await (_confine(context) if given.confine is not None else _migrate(context))
    _show(context, [move])
    return FAILED if move["state"] == "failed" else OK


async def _confine(context: Context) -> Object:
    pes = None if context.given.confine == "all" else _elements(context.given.confine)
    host, vm = await find_vm(context.link, context.given.vm)
    return {"host": host, **await context.link.confine(host, vm["vm"], pes)}


def _elements(text: str) -> str:
    try:
        return str(parse(f"pe={text}")).removeprefix("pe=")
    except SelectorError as error:
        raise UsageError(str(error)) from None


def _where(text: str) -> tuple[str | None, str | None]:
    """GPU and elements of ``--to``.

    :raise UsageError: it names neither.
    """
    try:
        found = parse(text if "=" in text else f"gpu={text}")
    except SelectorError as error:
        raise UsageError(str(error)) from None
    elsewhere = (found.vm, found.host, found.fn) != ("*", "*", None)
    if elsewhere or (found.gpu == "*" and found.pe is None) or (found.gpu != "*" and set(found.gpu) & set("*?|")):
        raise UsageError(f"--to {text!r}; allowed: gpu=1, pe=0-3 or gpu=1,pe=0-3")
    pes = None if found.pe is None else str(Selector(pe=found.pe)).removeprefix("pe=")
    return None if found.gpu == "*" else found.gpu, pes


async def _migrate(context: Context) -> Object:
    gpu, pes = _where(context.given.to)
    host, vm = await find_vm(context.link, context.given.vm)
    move = {"host": host, **await context.link.migrate(host, vm["vm"], gpu, pes)}
    if context.given.no_wait:
        return move
    state = None
    while True:
        if move["state"] != state and not context.out.as_json:
            context.out.note(f"{host}/{vm['vm']}: {move['state']}")
        state = move["state"]
        if state in ("done", "failed"):
            return move
        await asyncio.sleep(_POLL_S)
        number = move["migration"]
        now = [one for one in await context.link.migrations() if (one["host"], one["migration"]) == (host, number)]
        move = now[0] if now else move


def _show(context: Context, moves: list[Object]) -> None:
    if context.out.as_json:
        context.out.json(moves)
        return
    rows = [
        {**m, "began": clock(m["started_ns"]), "paused": duration(m["paused_ns"]), "moved": size(m["bytes"])}
        for m in moves
    ]
    context.out.rows(_COLUMNS, rows)
