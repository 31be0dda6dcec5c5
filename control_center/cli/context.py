"""`Context` that verbs run in, and functions that several verbs share."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_center.cli.link import Link, Object
from control_center.cli.output import LEVELS, Output
from control_center.cli.problems import FAILED, OK, CommandError, RefusalError, UsageError
from virtio_proto.control.api import POLICIES
from virtio_proto.control.selector import Selector, SelectorError, parse
from virtio_proto.control.verbs.channels import Close, Ls, Open, Set
from virtio_proto.control.verbs.hosts import Topology

TTL_S: Final = 60.0
"""Time to live of channels that a command keeps open while it runs: those of a killed command close by themselves."""
_RENEWALS: Final = 3
"""Renewals per time to live."""


@dataclass(frozen=True, slots=True)
class Context:
    """Arguments, output and server link of one run of a verb."""

    given: argparse.Namespace
    out: Output
    link: Link


# ---- arguments -----------------------------------------------------------------------------------


def selector(text: str) -> str:
    """Argument type: a selector, checked before anything is sent."""
    try:
        return str(parse(text))
    except SelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def level(text: str) -> int:
    """Argument type: a level by name or number."""
    if text in LEVELS[1:]:
        return LEVELS.index(text)
    if text.isdecimal() and 1 <= int(text) < len(LEVELS):
        return int(text)
    raise argparse.ArgumentTypeError(f"level {text!r}; allowed: {', '.join(LEVELS[1:])} or 1-{len(LEVELS) - 1}")


def positive(text: str) -> int:
    """Argument type: a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number above 0")
    return int(text)


def printable(text: str) -> str:
    """For argparse: a name or a version."""
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r:.80}; allowed: printable text")
    return text


def add_selector(parser: argparse.ArgumentParser, *, needed: bool = False) -> None:
    how = "such as 'gpu=*,pe=0-3,fn=log,vm=web1'" + ("" if needed else "; all if left out")
    nargs = None if needed else "?"
    parser.add_argument("selector", type=selector, nargs=nargs, default="", metavar="SELECTOR", help=how)


def add_terms(parser: argparse.ArgumentParser) -> None:
    """Adds the options of verbs that open channels."""
    parser.add_argument(
        "--level", type=level, help=f"records up to this level: {', '.join(LEVELS[1:])} (default: info)"
    )
    parser.add_argument("--policy", choices=POLICIES, help="what happens when a channel is full")
    parser.add_argument("--sample", type=int, metavar="N", help="keep one record of two to the power of N (default: 0)")
    parser.add_argument("--slots", type=positive, metavar="N", help="slots of 64 bytes per channel (default: 256)")
    parser.add_argument("--period", type=int, metavar="MS", help="perf, load: interval of reports; 0: once")


def terms(given: argparse.Namespace) -> Object:
    """Values of the options that `add_terms` added, as fields of an open request."""
    named = {"level": "level", "policy": "policy", "sample": "sample", "slots": "slots", "period": "period_ms"}
    found = ((field, getattr(given, option, None)) for option, field in named.items())
    return {field: value for field, value in found if value is not None}


# ---- finding -------------------------------------------------------------------------------------


async def find_vm(link: Link, name: str) -> tuple[str, Object]:
    """Finds the host and the VM that `name` (``vm`` or ``host/vm``) names.

    :raise RefusalError: no VM has that name, or several have.
    """
    host, _, vm = name.rpartition("/")
    everywhere = [(item["host"], known) for item in await link.ask(Topology.Request()) for known in item["vms"]]
    found = [(where, known) for where, known in everywhere if known["vm"] == vm and host in ("", where)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{where}/{known['vm']}" for where, known in (found or everywhere)[:16])
    raise RefusalError(f"{'several VMs are' if found else 'no VM is'} called {name!r}; known: {there}", "unknown")


async def find_instances(link: Link, wanted: Sequence[str]) -> list[Object]:
    """Finds open instances by ``host/number``, by number alone, or by a selector.

    :raise RefusalError: a name matches no open instance.
    :raise UsageError: a selector is malformed.
    """
    selectors = {name: _parsed(name) for name in wanted if "=" in name}
    there = await link.ask(Ls.Request())
    found: dict[str, Object] = {}
    for name in wanted:
        matching = [item for item in there if _is_named(item, name, selectors.get(name))]
        if not matching:
            known = ", ".join(item["instance"] for item in there[:16]) or "none"
            raise RefusalError(f"no instance matches {name!r}; open: {known}", "unknown")
        found |= {item["instance"]: item for item in matching}
    return list(found.values())


def place(name: str) -> tuple[str, int]:
    """The host and the number of what is named ``host/number``."""
    host, _, number = name.rpartition("/")
    return host, int(number)


async def close(link: Link, instance: Object) -> None:
    """Closes an open instance."""
    host, number = place(instance["instance"])
    await link.ask(Close.Request(instance=number), host)


def _parsed(text: str) -> Selector:
    try:
        return parse(text)
    except SelectorError as error:
        raise UsageError(str(error)) from None


def _is_named(instance: Object, name: str, chosen: Selector | None) -> bool:
    if chosen is not None:
        return chooses(chosen, instance)
    whole = str(instance["instance"])
    return name in (whole, whole.rpartition("/")[2])


def chooses(chosen: Selector, instance: Object) -> bool:
    """True if `chosen` matches the instance's function and one of its channels."""
    return (
        chosen.matches_host(instance["host"])
        and chosen.matches_fn(instance["function"])
        and any(
            chosen.matches_vm(one["vm"]) and chosen.matches_gpu(one["gpu"]) and chosen.matches_pe(one["pe"])
            for one in instance["channels"]
        )
    )


# ---- channels while a command runs ---------------------------------------------------------------


async def open_each(context: Context, text: str, functions: Sequence[str], fields: Object) -> list[Object]:
    """Opens an instance of each function that the selector names (`functions` if it names none), on every host. Hosts
    that refuse are noted if others opened an instance.

    :raise RefusalError: no host opened an instance.
    """
    chosen = parse(text)
    opened: list[Object] = []
    failed: list[str] = []
    for fn in chosen.fn or functions:
        one = Selector(chosen.host, chosen.gpu, chosen.vm, chosen.pe, (fn,))
        answer = await context.link.ask(Open.Request(selector=str(one), **fields))
        opened += answer["instances"]
        failed += failures(answer)
    if not opened:
        raise RefusalError("; ".join(dict.fromkeys(failed)) or f"nothing matches {text!r}")
    for line in dict.fromkeys(failed):
        context.out.note(f"not opened on {line}")
    return opened


def failures(answer: Object) -> list[str]:
    """Lines for the hosts that failed, each with the reason."""
    return [f"{item['host']}: {_error_text(item['error'])}" for item in answer.get("failed", [])]


def report_failures(context: Context, answer: Object) -> int:
    """Prints which hosts failed; gives the exit code."""
    problems = failures(answer)
    for problem in problems:
        context.out.error(problem)
    return FAILED if problems else OK


def _error_text(error: Any) -> str:
    return str(error.get("text", error)) if isinstance(error, dict) else str(error)


@contextlib.asynccontextmanager
async def opened(context: Context, text: str, functions: Sequence[str], fields: Object) -> AsyncIterator[list[Object]]:
    """Opens instances as `open_each` does, renews their time to live, and closes them at the end of the block."""
    instances = await open_each(context, text, functions, {**fields, "ttl_s": TTL_S})
    renewing = asyncio.create_task(_renew(context, instances))
    try:
        yield instances
    finally:
        renewing.cancel()
        await asyncio.shield(_close(context.link, instances))


async def _renew(context: Context, instances: Sequence[Object]) -> None:
    """Renews instances until cancelled; notes once if an instance cannot be renewed, and continues with the others."""
    noted: set[str] = set()
    while True:
        await asyncio.sleep(TTL_S / _RENEWALS)
        for name in (instance["instance"] for instance in instances):
            try:
                host, number = place(name)
                await context.link.ask(Set.Request(instance=number, ttl_s=TTL_S), host)
                noted.discard(name)
            except CommandError as error:
                if name not in noted:
                    noted.add(name)
                    context.out.note(f"{name} is not renewed: {error}")


async def _close(link: Link, instances: Sequence[Object]) -> None:
    for instance in instances:
        with contextlib.suppress(CommandError):  # expired, or its host is gone: closed in either case
            await close(link, instance)
