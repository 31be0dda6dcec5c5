"""Makes a token: prints the secret, which is shown only once, and the line to add to the server's file of tokens."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from control_center.cli.options import add_actions
from control_center.cli.output import Output
from control_center.cli.problems import OK, UsageError
from control_center.cli.times import length_s
from virtio_proto.control import tokens
from virtio_proto.control.api import ROLES

EXAMPLES: Final = """\
  vgcctl token new --role view --name ann --expires 30d
  vgcctl token new --role operate --vms web1 web2 --name web-team
The line goes into the file that `control.tokens` of a daemon, or `tokens` of a control centre, names.
"""


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    new = action("new", "make a token")
    new.add_argument("--role", choices=ROLES, default="view", help="what it allows (default: view)")
    new.add_argument(
        "--vms", "--vm", nargs="+", action="extend", metavar="VM", help="show these VMs only (default: all)"
    )
    new.add_argument("--expires", type=length_s, metavar="TIME", help="time to live, such as 30d (default: no end)")
    new.add_argument("--name", default="token", help="who uses it; shown as the owner of channels")


async def run_alone(given: argparse.Namespace, out: Output, _target: Any) -> int:
    expires_ns = None if given.expires is None else time.time_ns() + int(given.expires * 1e9)
    vms = None if given.vms is None else frozenset(given.vms)
    secret, token = tokens.new(given.role, vms, expires_ns, given.name)
    try:
        tokens.parse(token.line(), "token")
    except tokens.TokenError as error:
        raise UsageError(error.problems[0].removeprefix("token:1: ")) from None
    if out.as_json:
        out.json({"token": secret, "line": token.line()})
    else:
        out.line(f"token (shown once; for VGC_TOKEN):\n  {secret}")
        out.line(f"line for the file of tokens:\n  {token.line()}")
    return OK
