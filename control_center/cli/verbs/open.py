"""Opens channels and leaves them open, so that others can read them, until they are closed or their time to live ends."""

from __future__ import annotations

import argparse
from typing import Final

from control_center.cli.context import Context, add_selector, add_terms, open_each, printable, terms
from control_center.cli.problems import OK, UsageError
from control_center.cli.times import length_s
from control_center.cli.verbs.ls import summary
from virtio_proto.control.selector import FUNCTIONS, parse

EXAMPLES: Final = """\
  vgcctl open 'vm=web1,fn=log' --level warning      logs of a VM, for an hour
  vgcctl open 'host=h*,fn=perf' --ttl 7d            performance of all PEs of some hosts, for a week
"""


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser, needed=True)
    add_terms(parser)
    parser.add_argument(
        "--ttl",
        type=length_s,
        default=3600.0,
        metavar="TIME",
        help="time to live, after which they are closed (default: 1h)",
    )
    parser.add_argument("--owner", type=printable, help="shown in lists (default: your token's name)")


async def run(context: Context) -> int:
    given = context.given
    if parse(given.selector).fn is None:
        raise UsageError(f"selector {given.selector!r}: fn is missing; allowed: {', '.join(FUNCTIONS)}")
    fields = {**terms(given), "ttl_s": given.ttl, "keep": True}
    if given.owner:
        fields["owner"] = given.owner
    instances = await open_each(context, given.selector, (), fields)
    shown = instances if context.out.as_json else [summary(item) for item in instances]
    context.out.rows(("instance", "function", "selector", "owner", "level", "policy", "channels"), shown)
    return OK
