"""Options that all verbs have: the server to ask, and how to print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final


class Arguments(argparse.ArgumentParser):
    """Parser that accepts arguments between options: ``policy add NAME --action reset SELECTOR``.

    argparse itself takes an optional argument as missing if the argument before it is followed by an option.
    """

    _mixing = False

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        if self._mixing or any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            found, rest = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
        if rest:  # here, as argparse would show the usage of the whole command
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def common_options() -> Arguments:
    """Parser with these options, as a parent of other parsers."""
    common = Arguments(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("server and output")
    group.add_argument("--centre", metavar="URL", help="a control centre, such as http://127.0.0.1:7070")
    group.add_argument("--daemon", metavar="ADDRESS", help="one daemon: unix:/path or tls://host:port")
    group.add_argument("--token", help="token to show (better: VGC_TOKEN in the environment)")
    group.add_argument("--ca", metavar="FILE", help="CA certificates that sign the server's certificate")
    group.add_argument("--certificate", metavar="FILE", help="client certificate to show, with --key")
    group.add_argument("--key", metavar="FILE", help="private key of --certificate")
    group.add_argument("--json", action="store_true", help="for programs: JSON, one object per line in streams")
    group.add_argument("--no-colour", action="store_true", help="no colours on a terminal either")
    return common


_ALIASES: Final = {"ls": ("list",), "list": ("ls",)}


def add_actions(
    parser: argparse.ArgumentParser, *, needed: bool = True
) -> Callable[[str, str], argparse.ArgumentParser]:
    """Gives a verb actions of its own; returns the function that adds an action by its name and help.

    `ls` and `list` are one action to people, whichever of the two a verb has.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=needed)
    common = common_options()

    def action(name: str, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, aliases=_ALIASES.get(name, ()), help=text, description=text, parents=[common])
        made.set_defaults(action=name)
        return made

    return action
