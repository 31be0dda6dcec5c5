"""Changes the level or the sampling of open channels, while kernels run."""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, find_instances, level, place
from control_center.cli.link import Object
from control_center.cli.problems import OK, UsageError
from control_center.cli.verbs.ls import summary
from virtio_proto.control.verbs.channels import Set

EXAMPLES: Final = """\
  vgcctl level h1/3 debug
  vgcctl level 'vm=web1,fn=log' error --sample 4      and one record of 16
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("instance", metavar="INSTANCE|SELECTOR", help="host/number, number or a selector")
    parser.add_argument("level", type=level, nargs="?", metavar="LEVEL", help="critical, error, warning, info or debug")
    parser.add_argument("--sample", type=int, metavar="N", help="keep one record of two to the power of N")


async def run(context: Context) -> int:
    given = context.given
    fields: Object = {key: getattr(given, key) for key in ("level", "sample") if getattr(given, key) is not None}
    if not fields:
        raise UsageError("nothing to change is given; allowed: a LEVEL, --sample N, or both")
    found = await find_instances(context.link, [given.instance])
    changed = []
    for instance in found:
        host, number = place(instance["instance"])
        changed.append(await context.link.ask(Set.Request(instance=number, **fields), host))
    shown = changed if context.out.as_json else [summary(item) for item in changed]
    context.out.rows(("instance", "function", "selector", "level", "sample", "channels"), shown)
    return OK
