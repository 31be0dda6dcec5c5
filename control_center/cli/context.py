"""What a verb works with, and what several verbs do the same way."""

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
from virtio_proto.control.selector import Selector, SelectorError, parse

TTL_S: Final = 60.0
"""Of what a command has open while it runs: it renews that, and a command that was killed leaves nothing behind."""
_RENEWALS: Final = 3
"""Per time to live."""


@dataclass(frozen=True, slots=True)
class Context:
    """One run of a verb."""

    given: argparse.Namespace
    out: Output
    link: Link


# ---- arguments -----------------------------------------------------------------------------------


def selector(text: str) -> str:
    """For argparse: a selector, checked before anything is sent."""
    try:
        return str(parse(text))
    except SelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def level(text: str) -> int:
    """For argparse: a level by name or number."""
    if text in LEVELS[1:]:
        return LEVELS.index(text)
    if text.isdecimal() and 1 <= int(text) < len(LEVELS):
        return int(text)
    raise argparse.ArgumentTypeError(f"level {text!r}; allowed: {', '.join(LEVELS[1:])} or 1-{len(LEVELS) - 1}")


def positive(text: str) -> int:
    """For argparse: a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number above 0")
    return int(text)


def add_selector(parser: argparse.ArgumentParser, *, needed: bool = False) -> None:
    how = "such as 'gpu=*,pe=0-3,fn=log,vm=web1'" + ("" if needed else "; all if left out")
    nargs = None if needed else "?"
    parser.add_argument("selector", type=selector, nargs=nargs, default="", metavar="SELECTOR", help=how)


def add_terms(parser: argparse.ArgumentParser) -> None:
    """Options of what opens channels."""
    parser.add_argument(
        "--level", type=level, help=f"records up to this level: {', '.join(LEVELS[1:])} (default: info)"
    )
    parser.add_argument("--policy", choices=("drop-new", "overwrite-oldest", "wait"), help="when a channel is full")
    parser.add_argument("--sample", type=int, metavar="N", help="keep one record of two to the power of N (default: 0)")
    parser.add_argument("--slots", type=positive, metavar="N", help="of 64 bytes, per channel (default: 256)")
    parser.add_argument("--period", type=int, metavar="MS", help="perf, load: how often counters are reported; 0: once")


def terms(given: argparse.Namespace) -> Object:
    """What `add_terms` has parsed, as fields of an open request."""
    named = {"level": "level", "policy": "policy", "sample": "sample", "slots": "slots", "period": "period_ms"}
    found = ((field, getattr(given, option, None)) for option, field in named.items())
    return {field: value for field, value in found if value is not None}


# ---- finding -------------------------------------------------------------------------------------


async def find_vm(link: Link, name: str) -> tuple[str, Object]:
    """The host and the VM that `name` (``vm`` or ``host/vm``) names.

    :raise RefusalError: there is none, or several.
    """
    host, _, vm = name.rpartition("/")
    everywhere = [(item["host"], known) for item in await link.hosts() for known in item["vms"]]
    found = [(where, known) for where, known in everywhere if known["vm"] == vm and host in ("", where)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{where}/{known['vm']}" for where, known in (found or everywhere)[:16])
    raise RefusalError(f"{'several VMs are' if found else 'no VM is'} called {name!r}; there is: {there}", "unknown")


async def find_instances(link: Link, wanted: Sequence[str]) -> list[Object]:
    """The open instances that are named ``host/number``, by number alone, or chosen by a selector.

    :raise RefusalError: one of them there is not.
    :raise UsageError: what looks like no number is no selector either.
    """
    selectors = {name: _parsed(name) for name in wanted if "=" in name}
    there = await link.channels("")
    found: dict[str, Object] = {}
    for name in wanted:
        matching = [item for item in there if _is_named(item, name, selectors.get(name))]
        if not matching:
            known = ", ".join(item["instance"] for item in there[:16]) or "none is open"
            raise RefusalError(f"no instance matches {name!r}; there is: {known}", "unknown")
        found |= {item["instance"]: item for item in matching}
    return list(found.values())


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
    """Whether an open instance is of the function and has channels to what `chosen` matches."""
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
    """An instance of each function that the selector names (`functions` if it names none), on every host.

    :raise RefusalError: nothing could be opened; hosts where it could not are noted when others could.
    """
    chosen = parse(text)
    opened: list[Object] = []
    failed: list[str] = []
    for fn in chosen.fn or functions:
        one = Selector(chosen.host, chosen.gpu, chosen.vm, chosen.pe, (fn,))
        answer = await context.link.open({"selector": str(one), **fields})
        opened += answer["instances"]
        failed += failures(answer)
    if not opened:
        raise RefusalError("; ".join(dict.fromkeys(failed)) or f"nothing matches {text!r}")
    for line in dict.fromkeys(failed):
        context.out.note(f"not opened on {line}")
    return opened


def failures(answer: Object) -> list[str]:
    """Of an answer: the hosts that did not do what others did, each with why."""
    return [f"{item['host']}: {_error_text(item['error'])}" for item in answer.get("failed", [])]


def told(context: Context, answer: Object) -> int:
    """Says which hosts did not do what others did; the exit code."""
    problems = failures(answer)
    for problem in problems:
        context.out.error(problem)
    return FAILED if problems else OK


def _error_text(error: Any) -> str:
    return str(error.get("text", error)) if isinstance(error, dict) else str(error)


@contextlib.asynccontextmanager
async def opened(context: Context, text: str, functions: Sequence[str], fields: Object) -> AsyncIterator[list[Object]]:
    """As `open_each`, closed at the end of the block; kept open by renewing its time to live."""
    instances = await open_each(context, text, functions, {**fields, "ttl_s": TTL_S})
    renewing = asyncio.create_task(_renew(context, instances))
    try:
        yield instances
    finally:
        renewing.cancel()
        await asyncio.shield(_close(context.link, instances))


async def _renew(context: Context, instances: Sequence[Object]) -> None:
    """Until cancelled; of an instance that cannot be renewed it says so once, and goes on with the others."""
    told: set[str] = set()
    while True:
        await asyncio.sleep(TTL_S / _RENEWALS)
        for name in (instance["instance"] for instance in instances):
            try:
                await context.link.change(name, {"ttl_s": TTL_S})
                told.discard(name)
            except CommandError as error:
                if name not in told:
                    told.add(name)
                    context.out.note(f"{name} is not renewed: {error}")


async def _close(link: Link, instances: Sequence[Object]) -> None:
    for instance in instances:
        with contextlib.suppress(CommandError):  # it has expired, or its host is gone: closed all the same
            await link.close(instance["instance"])
