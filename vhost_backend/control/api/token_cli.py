"""``vgcd token``: makes tokens for the control API."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from vhost_backend.errors import ConfigError
from virtio_proto.control import tokens
from virtio_proto.control.api import ROLES

_UNITS: Final = {"m": 60, "h": 3600, "d": 86400}
_TIME: Final = re.compile(r"(\d{1,6})([mhd])")


def add_to(commands: Any) -> None:
    """Adds ``token`` to the subcommands of an argument parser."""
    parser = commands.add_parser("token", help="make tokens for the control API", description=__doc__)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a token, and the line that makes a host accept it")
    new.add_argument("--role", required=True, choices=ROLES, help="what it may do")
    new.add_argument(
        "--vm", "--vms", dest="vm", nargs="+", action="extend", metavar="NAME", help="see these VMs only (default: all)"
    )
    new.add_argument("--expires", metavar="TIME", help="such as 12h or 30d from now (default: never)")
    new.add_argument("--name", default="token", metavar="TEXT", help="shown as the owner of what it opens")
    new.add_argument("--append-to", type=Path, metavar="FILE", help="the file of control.tokens, instead of printing")
    new.set_defaults(command=_new)


def _new(arguments: argparse.Namespace) -> int:
    now_ns = time.time_ns()
    expires_ns = None if arguments.expires is None else now_ns + _duration_ns(arguments.expires)
    vms = None if arguments.vm is None else frozenset(arguments.vm)
    secret, token = tokens.new(arguments.role, vms, expires_ns, arguments.name)
    try:
        tokens.parse(token.line(), "command line", with_hosts=False)  # checks its name and VMs
    except tokens.TokenError as error:
        raise ConfigError(error.problems) from None
    if arguments.append_to is None:
        _say("token, shown this once:")
        _say(f"  {secret}")
        _say("line for the file that control.tokens names:")
        _say(f"  {token.line()}")
        return 0
    _append(arguments.append_to, token.line())
    _say(secret)
    return 0


def _duration_ns(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ConfigError([f"--expires is {text!r:.40}; allowed: a time such as 30m, 12h or 30d"])
    return int(match[1]) * _UNITS[match[2]] * tokens.NS_PER_S


def _append(path: Path, line: str) -> None:
    """Appends a line; a new file can be read by its owner only."""
    try:
        if not path.exists():
            path.touch(mode=0o600)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be written: {error.strerror}; allowed: a file of tokens"]) from None


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
