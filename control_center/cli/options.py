"""Options that may stand anywhere behind ``vgcctl``: whom to ask, and how to print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any


class Arguments(argparse.ArgumentParser):
    """A parser whose arguments may stand among its options: ``policy add NAME --action reset SELECTOR``.

    argparse by itself takes an optional argument as missing where the argument before it is followed by an option.
    """

    _mixing = False

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        if self._mixing or any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def common_options() -> Arguments:
    """A parser with them, to be a parent of others."""
    common = Arguments(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("whom to ask, and how to print")
    group.add_argument("--centre", metavar="URL", help="a control centre, such as http://127.0.0.1:7070")
    group.add_argument("--daemon", metavar="ADDRESS", help="one daemon: unix:/path or tls://host:port")
    group.add_argument("--token", help="who you are (better: VGC_TOKEN in the environment)")
    group.add_argument("--ca", metavar="FILE", help="certificates that sign the server's")
    group.add_argument("--certificate", metavar="FILE", help="a client's certificate, with --key")
    group.add_argument("--key", metavar="FILE", help="its key")
    group.add_argument("--json", action="store_true", help="for programs: JSON, one object per line in streams")
    group.add_argument("--no-colour", action="store_true", help="no colours on a terminal either")
    return common


def add_actions(
    parser: argparse.ArgumentParser, *, needed: bool = True
) -> Callable[[str, str], argparse.ArgumentParser]:
    """For a verb with actions of its own: what makes the parser of one, by its name and its help."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=needed)
    common = common_options()

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text, parents=[common])

    return action
