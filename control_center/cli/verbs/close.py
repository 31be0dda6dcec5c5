"""Closes channels: by instance, or all that a selector chooses."""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, close, find_instances
from control_center.cli.problems import OK, UsageError
from virtio_proto.control.verbs.channels import Ls

EXAMPLES: Final = """\
  vgcctl close h1/3 h1/4              two instances
  vgcctl close 'vm=web1,fn=log'       all logs of a VM
  vgcctl close --all                  all open channels
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("instances", nargs="*", metavar="INSTANCE|SELECTOR", help="host/number, number or a selector")
    parser.add_argument("--all", action="store_true", help="all open channels")


async def run(context: Context) -> int:
    given = context.given
    if bool(given.instances) == given.all:
        raise UsageError("nothing to close is named; allowed: instances or selectors, or --all")
    if given.all:
        found = await context.link.ask(Ls.Request())
    else:
        found = await find_instances(context.link, given.instances)
    for instance in found:
        await close(context.link, instance)
    names = [instance["instance"] for instance in found]
    if context.out.as_json:
        context.out.json({"closed": names})
    else:
        context.out.line(f"closed {', '.join(names)}" if names else "nothing is open")
    return OK
