"""Workers: the process that does a VM's work, held, let go on, or replaced.

A held one finishes what it has begun; the guest's further requests wait. A policy with the action quiesce does the same.
"""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, find_vm
from control_center.cli.options import add_actions
from control_center.cli.problems import OK

EXAMPLES: Final = """\
  vgcctl worker quiesce web1        its requests wait
  vgcctl worker resume web1         and are done again
  vgcctl worker reset h1/web1       what runs in it ends, and the guest is told
"""
_DONE: Final = {
    "quiesce": "takes no new requests until: vgcctl worker resume",
    "resume": "takes requests",
    "reset": "has a new worker",
}


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    for one in (
        action("quiesce", "take no new requests"),
        action("resume", "take requests again"),
        action("reset", "replace it: what runs in it ends"),
    ):
        one.add_argument("vm", metavar="VM", help="its name, or host/name")


async def run(context: Context) -> int:
    given = context.given
    host, vm = await find_vm(context.link, given.vm)
    await context.link.steer_worker(host, vm["vm"], given.action)
    context.out.note(f"{host}/{vm['vm']} {_DONE[given.action]}")
    return OK
