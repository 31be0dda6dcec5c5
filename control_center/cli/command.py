"""Command line of ``vgcctl``: finds the verb, connects to the server, runs the verb, gives the exit code.

Verbs' modules are imported only when used, so that ``vgcctl --help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from control_center import __version__
from control_center.cli.options import Arguments, common_options
from control_center.cli.problems import OK, CommandError, MissingPackageError
from control_center.cli.verbs import VERBS
from virtio_proto.control.figures import glossary

INTERRUPTED: Final = 130
"""Exit code of a command that a signal ended before its end; of a live one, which has no other end, it is `OK`."""
_EPILOG: Final = """\
examples:
  vgcctl status                                  is all well, and what is allotted
  vgcctl ls                                      hosts, GPUs, VMs and open channels
  vgcctl tail 'gpu=*,pe=0-3,fn=log,vm=web1'      logs of four processing elements, live
  vgcctl send 'vm=web1,pe=0'                     a console: type to the kernel, see its prints
  vgcctl watch                                   how busy each of them is
  vgcctl VERB --help                             examples of a verb

selectors: host=*,gpu=0-3,vm=web1,pe=0-131,fn=log; keys that are left out match everything; quote them

server: --centre URL or --daemon unix:/path; or VGC_CENTRE, VGC_DAEMON, VGC_TOKEN in the environment;
  or unix:/run/vgcd/control.sock or unix:/run/vgc/control.sock, if there is one; or http://127.0.0.1:7070

exit codes: 0 done, 1 failed, 2 wrong command line, 3 refused, 4 no server answers,
  5 status: something needs attention
"""


def _module(verb: str) -> ModuleType:
    return import_module(f"control_center.cli.verbs.{verb}")


def parser(verb: str | None = None) -> Arguments:
    """Parser of the whole command line, with all options of `verb`."""
    raw = argparse.RawDescriptionHelpFormatter
    common = common_options()
    made = Arguments(
        prog="vgcctl",
        description="Watches and steers the processing elements of GPUs, on one host or many.",
        epilog=_EPILOG,
        formatter_class=raw,
        parents=[common],
    )
    made.add_argument("--version", action="store_true", dest="own_version", help="print the version and exit")
    verbs = made.add_subparsers(title="verbs", metavar="VERB", dest="verb")
    for name, text in VERBS.items():
        if name != verb:
            verbs.add_parser(name, help=text, add_help=False)
            continue
        module = _module(name)
        one = verbs.add_parser(
            name,
            help=text,
            description=module.__doc__,
            epilog=f"examples:\n{module.EXAMPLES}{_figures(module)}",
            formatter_class=raw,
            parents=[common],
        )
        module.add(one)
    return made


def _figures(module: ModuleType) -> str:
    """Definitions of the figures that a verb shows."""
    names = getattr(module, "FIGURES", ())
    return f"\nfigures:\n{glossary(names)}" if names else ""


def _verb_of(argv: Sequence[str]) -> str | None:
    """Verb in a command line: the first word that is neither an option nor the value of an option."""
    valued = {"--centre", "--daemon", "--token", "--ca", "--certificate", "--key"}
    skip = False
    for word in argv:
        if skip or word.startswith("-"):
            skip = not skip and word in valued
            continue
        return word if word in VERBS else None
    return None


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the command line; ends the program with exit code 2 if it is wrong, as argparse does."""
    verb = _verb_of(argv)
    made = parser(verb)
    given = made.parse_args(argv)
    if given.verb is None and not given.own_version:
        made.error(f"the verb is missing; allowed: {', '.join(VERBS)}")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    :return: the exit code; see the epilog of ``--help``.
    """
    try:
        given = parse(sys.argv[1:] if argv is None else argv)
    except ModuleNotFoundError as error:
        print(f"vgcctl: {MissingPackageError(str(error.name))}", file=sys.stderr)
        return MissingPackageError.exit_code
    if given.own_version:
        return _print_version()
    import asyncio

    from control_center.cli.output import Output

    is_live = getattr(_module(given.verb), "LIVE", False)
    out = Output(as_json=getattr(given, "json", False), colour=False if hasattr(given, "no_colour") else None)
    try:
        return asyncio.run(_until_ended(given, out))
    except CommandError as error:
        out.error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        return OK if is_live else INTERRUPTED
    except BrokenPipeError:  # the reader of our output has ended, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


async def _until_ended(given: argparse.Namespace, out: object) -> int:
    """Runs a command, which SIGTERM and SIGHUP end as Ctrl-C does: channels that it opened are closed. The second such
    signal ends the program at once.
    """
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: int) -> None:
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # else it is ignored, as under nohup
            loop.add_signal_handler(number, end, number)
    return await execute(given, out)


async def execute(given: argparse.Namespace, out: object) -> int:
    """Runs a parsed command on this event loop; `out` is an `Output`.

    :raise CommandError: the command failed.
    """
    from control_center.cli.connect import choose, connected
    from control_center.cli.link import Target
    from control_center.cli.output import Output

    assert isinstance(out, Output)
    module = _module(given.verb)
    names = ("centre", "daemon", "token", "ca", "certificate", "key")
    named: dict[str, Any] = {name: getattr(given, name, None) for name in names}
    asked = Target(**named)
    if hasattr(module, "run_alone"):
        return int(await module.run_alone(given, out, asked))
    from control_center.cli.context import Context

    async with connected(choose(asked)) as link:
        return int(await module.run(Context(given, out, link)) or OK)


def _print_version() -> int:
    print(f"vgcctl {__version__}")
    return OK
