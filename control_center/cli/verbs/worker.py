"""Holds, resumes or replaces a VM's worker, the process that serves the VM's requests.

A worker that is held (quiesced) finishes the requests it has begun; the guest's further requests wait. A policy with the
action quiesce has the same effect.
"""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, find_vm
from control_center.cli.options import add_actions
from control_center.cli.problems import OK
from virtio_proto.control.verbs.base import VmRequest
from virtio_proto.control.verbs.hosts import Quiesce, ResetWorker, Resume

EXAMPLES: Final = """\
  vgcctl worker quiesce web1        let the guest's requests wait
  vgcctl worker resume web1         serve them again
  vgcctl worker reset h1/web1       end its kernels with an error, and start a new worker
"""
_ASKED: Final[dict[str, type[VmRequest]]] = {
    "quiesce": Quiesce.Request,
    "resume": Resume.Request,
    "reset": ResetWorker.Request,
}
_DONE: Final = {
    "quiesce": "takes no new requests until: vgcctl worker resume",
    "resume": "takes requests",
    "reset": "has a new worker",
}


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    for one in (
        action("quiesce", "have the worker take no new requests"),
        action("resume", "have the worker take requests again"),
        action("reset", "replace the worker: requests that run in it end with an error"),
    ):
        one.add_argument("vm", metavar="VM", help="its name, or host/name")


async def run(context: Context) -> int:
    given = context.given
    host, vm = await find_vm(context.link, given.vm)
    await context.link.ask(_ASKED[given.action](vm=vm["vm"]), host)
    context.out.note(f"{host}/{vm['vm']} {_DONE[given.action]}")
    return OK
