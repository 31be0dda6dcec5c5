"""Makes a token: the secret, shown once, and the line for the file of tokens that knows it."""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
import time
from datetime import UTC, datetime
from typing import Any, Final

from control_center.cli.options import add_actions
from control_center.cli.output import Output
from control_center.cli.problems import OK, UsageError
from control_center.cli.times import length_s
from virtio_proto.control.api import ROLES

EXAMPLES: Final = """\
  vgcctl token new --role view --name ann --expires 30d
  vgcctl token new --role operate --vms web1 web2 --name web-team
The line goes into the file that `control.tokens` of a daemon, or `tokens` of a control centre, names.
"""
_MARK: Final = "vgc_"
_VM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}")


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    new = action("new", "make one")
    new.add_argument("--role", choices=ROLES, default="view", help="what it allows (default: view)")
    new.add_argument("--vms", nargs="+", metavar="VM", help="the only VMs that it shows (default: all)")
    new.add_argument("--expires", type=length_s, metavar="TIME", help="such as 30d (default: never)")
    new.add_argument("--name", default="token", help="whose it is")


async def run_alone(given: argparse.Namespace, out: Output, _target: Any) -> int:
    if wrong := [vm for vm in given.vms or () if not _VM.fullmatch(vm)]:
        raise UsageError(f"--vms {wrong[0]!r}; allowed: names of letters, digits, _ . and -")
    if not _NAME.fullmatch(given.name):
        raise UsageError(f"--name {given.name!r}; allowed: letters, digits, _ . @ and -")
    secret = _MARK + secrets.token_urlsafe(32)
    parts = [f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}", f"role={given.role}"]
    if given.vms:
        parts.append(f"vms={'|'.join(sorted(given.vms))}")
    if given.expires is not None:
        parts.append(f"expires={datetime.fromtimestamp(time.time() + given.expires, UTC):%Y-%m-%dT%H:%M:%SZ}")
    line = " ".join([*parts, f"name={given.name}"])
    if out.as_json:
        out.json({"token": secret, "line": line})
    else:
        out.line(f"token (shown once; for VGC_TOKEN):\n  {secret}")
        out.line(f"line for the file of tokens:\n  {line}")
    return OK
