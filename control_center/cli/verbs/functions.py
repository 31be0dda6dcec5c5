"""Functions of VMs: those that guests have registered for their VM, with parameters, and what was launched how often.

Launches, mean and 99th percentile are of all processes of the guest since its worker has counted them, of at most 46 functions of a VM by
name. Guests make up the names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from control_center.cli.context import Context, add_selector
from control_center.cli.link import Object
from control_center.cli.output import duration
from control_center.cli.problems import OK
from virtio_proto.control import latency
from virtio_proto.control.verbs.functions import Functions, Programs

EXAMPLES: Final = """\
  vgcctl functions                   of all VMs
  vgcctl functions 'vm=web1'         of one
  vgcctl functions --json            for a program
"""
_COLUMNS: Final = ("host", "vm", "function", "program", "state", "launches", "mean", "p99")
_Key = tuple[str, str, str]


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)


async def run(context: Context) -> int:
    given, out = context.given, context.out
    programs = await context.link.ask(Programs.Request(selector=given.selector))
    works = await context.link.ask(Functions.Request(selector=given.selector))
    by_name = {(work["host"], work["vm"], work["function"]): work for work in works}
    rows = [row for program in programs for row in _rows(program, by_name)]
    rows += [_row(*key, None, _origin(key[2]), work=work) for key, work in by_name.items()]
    if out.as_json:
        out.json({"programs": programs, "functions": works})
        return OK
    out.rows(_COLUMNS, [_shown(row) for row in rows])
    for program in programs:
        if program["problem"]:
            out.note(f"{program['host']}/{program['vm']}: program {program['program']} is broken: {program['problem']}")
    return OK


def _origin(function: str) -> str:
    """Origin of a function that no registered program has: names of built-in ones have a dot."""
    return "built in" if "." in function else "of a process"


def _shown(row: Object) -> Object:
    return {**row, **{name: None if row[name] is None else duration(row[name]) for name in ("mean", "p99")}}


def _rows(program: Object, works: dict[_Key, Object]) -> Iterator[Object]:
    """Functions of a program, whose work is taken out of `works`."""
    host, vm, number = program["host"], program["vm"], program["program"]
    state = "broken" if program["problem"] else "kept" if program["kept"] else "registered"
    for signature in program["functions"]:
        work = works.pop((host, vm, signature.partition("(")[0]), None)
        yield _row(host, vm, signature, number, state, work=work)
    if (more := program["num_functions"] - len(program["functions"])) > 0:
        yield _row(host, vm, f"(and {more} more)", number, state, work=None)


def _row(
    host: str, vm: str, function: str, program: int | None, state: str, *, work: Mapping[str, Any] | None
) -> dict[str, Any]:
    times = [] if work is None else work["times"]
    timed = sum(times)
    return {
        "host": host,
        "vm": vm,
        "function": function,
        "program": program,
        "state": state,
        "launches": 0 if work is None else work["launches"],
        "mean": None if work is None or not timed else work["busy_ns"] / timed,
        "p99": latency.quantile_ns(times, 0.99),
    }
