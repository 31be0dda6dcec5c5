"""Migrates a VM to another GPU or other processing elements (PEs) without the guest noticing, confines it to some of
its PEs, or balances the load of all VMs. VMs on a GPU cannot be migrated or confined yet.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from control_center.cli.context import Context, find_vm, report_failures
from control_center.cli.link import Object
from control_center.cli.output import clock, duration, size
from control_center.cli.problems import FAILED, OK, UsageError
from virtio_proto.control.selector import Selector, SelectorError, parse
from virtio_proto.control.verbs.migrations import Balance, Confine, Migrate, Migrations

EXAMPLES: Final = """\
  vgcctl migrate                               migrations, done and under way
  vgcctl migrate h1/web1 --to pe=0-3           to other PEs
  vgcctl migrate web1 --confine 0-3            run on these PEs from the next block on; all: on all again
  vgcctl migrate --balance                     propose migrations; with --apply: make them
"""
_POLL_S: Final = 0.2
_COLUMNS: Final = ("host", "migration", "vm", "source", "target", "state", "began", "paused", "copied", "text")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vm", nargs="?", metavar="VM", help="its name, or host/name")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--to", metavar="WHERE", help="gpu=1, pe=0-3 or gpu=1,pe=0-3")
    what.add_argument("--confine", metavar="PES", help="0-3|8, or all")
    what.add_argument("--balance", action="store_true", help="propose migrations that even out the load")
    parser.add_argument("--apply", action="store_true", help="with --balance: make the proposed migrations")
    parser.add_argument("--host", help="with --balance: on this host only")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the end of the migration")


async def run(context: Context) -> int:
    given = context.given
    if given.balance:
        answer = await context.link.ask(Balance.Request(apply=given.apply), given.host)
        context.out.rows(("host", "vm", "source", "target", "reason", "migration"), answer["moves"])
        return report_failures(context, answer)
    if given.vm is None:
        if given.to or given.confine:
            raise UsageError("the VM is missing; allowed: vgcctl migrate VM --to WHERE")
        _show(context, await context.link.ask(Migrations.Request()))
        return OK
    if given.confine is None and given.to is None:
        raise UsageError(f"the target of {given.vm} is missing; allowed: --to gpu=1, --to pe=0-3, --confine 0-3")
    migration = await (_confine(context) if given.confine is not None else _migrate(context))
    _show(context, [migration])
    return FAILED if migration["state"] == "failed" else OK


async def _confine(context: Context) -> Object:
    pes = None if context.given.confine == "all" else _elements(context.given.confine)
    host, vm = await find_vm(context.link, context.given.vm)
    migration: Object = await context.link.ask(Confine.Request(vm=vm["vm"], pes=pes), host)
    return migration


def _elements(text: str) -> str:
    try:
        return str(parse(f"pe={text}")).removeprefix("pe=")
    except SelectorError as error:
        raise UsageError(str(error)) from None


def _where(text: str) -> tuple[str | None, str | None]:
    """GPU and PEs that ``--to`` names.

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
    migration: Object = await context.link.ask(Migrate.Request(vm=vm["vm"], gpu=gpu, pes=pes), host)
    if context.given.no_wait:
        return migration
    state = None
    while True:
        if migration["state"] != state and not context.out.as_json:
            context.out.note(f"{host}/{vm['vm']}: {migration['state']}")
        state = migration["state"]
        if state in ("done", "failed"):
            return migration
        await asyncio.sleep(_POLL_S)
        number = migration["migration"]
        migrations = await context.link.ask(Migrations.Request())
        now = [one for one in migrations if (one["host"], one["migration"]) == (host, number)]
        migration = now[0] if now else migration


def _show(context: Context, migrations: list[Object]) -> None:
    if context.out.as_json:
        context.out.json(migrations)
        return
    rows = [
        {**m, "began": clock(m["started_ns"]), "paused": duration(m["paused_ns"]), "copied": size(m["bytes"])}
        for m in migrations
    ]
    context.out.rows(_COLUMNS, rows)
