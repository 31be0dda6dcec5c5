"""One picture: what needs attention and what to do about it; what each host has, and what its VMs are allotted of it.

The exit code is 0 if all is well, 5 if something needs attention.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from control_center import health
from control_center.cli.context import Context, failures
from control_center.cli.link import Link, Object
from control_center.cli.output import cell, date, over, size
from control_center.cli.problems import ATTENTION, OK, RefusalError
from control_center.health import Problem
from virtio_proto.control.verbs.faults import Faults
from virtio_proto.control.verbs.hosts import Self, Topology
from virtio_proto.control.verbs.status import Status

EXAMPLES: Final = """\
  vgcctl status                      the host of this machine's daemon, or all hosts of the centre
  vgcctl status h1                   one host
  vgcctl status --json               for a program
"""
_MANY: Final = 1000
"""Factor from which on a whole number is shown."""
_MAX_SHOWN: Final = 64
"""Most problems that are shown to people."""
_COLUMNS: Final = ("gpu", "name", "vms", "pes", "memory")
_WEIGHTS: Final = {
    "cgroup1": "each VM's control group",
    "cgroup2": "each VM's control group",
    "session": "each session of processes, by nice values",
    "thread": "each thread, by nice values",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", nargs="?", metavar="HOST", help="one host (default: all)")


async def run(context: Context) -> int:
    link, wanted = context.link, context.given.host
    known = await link.ask(Topology.Request())
    hosts = [host for host in known if wanted in (None, host["host"])]
    if wanted is not None and not hosts:
        there = ", ".join(host["host"] for host in known[:16]) or "none"
        raise RefusalError(f"no host {wanted:.80}; there is: {there}", "unknown")
    statuses, silent = await _statuses(link)
    faults = await link.ask(Faults.Request())
    recorder, recording = await _recorder(link)
    problems = [*_problems(hosts, statuses, faults), *health.of_recorder(recorder), *await _own_problems(link, hosts)]
    if context.out.as_json:
        shown = [{**host, "status": statuses.get(host["host"])} for host in hosts]
        about = {"well": not problems, "problems": [asdict(problem) for problem in problems]}
        context.out.json({**about, "hosts": shown, "recorder": recorder})
    else:
        _show(context, hosts, statuses, problems)
        context.out.line(recording)
        for line in silent:
            context.out.note(f"no allotments: {line}")
    return ATTENTION if problems else OK


async def _statuses(link: Link) -> tuple[Mapping[str, Object], list[str]]:
    """Status of each host that tells it, and lines for those that do not: to callers that see some VMs, hosts tell none."""
    try:
        answer = await link.ask(Status.Request())
    except RefusalError as error:
        return {}, [str(error)]
    return answer["hosts"], failures(answer)


async def _recorder(link: Link) -> tuple[Object | None, str]:
    """Extent of the recording and a line about it; None: nothing is recorded, or its extent is not told to this caller."""
    if link.recordings is None:
        return None, "recording: none; a control centre keeps one"
    try:
        recorder = await link.recordings.recorder()
    except RefusalError:
        return None, "recording: none"
    if recorder is None:
        return None, "recording: its extent is told to callers that see all VMs; vgcctl replay --list shows your part"
    free = "" if recorder["free_bytes"] is None else f", {size(recorder['free_bytes'])} free"
    extent = f"{recorder['records']} records, {size(recorder['bytes'])}{free}{over(recorder)}"
    return recorder, f"recording: {recorder['url']}, {extent}"


async def _own_problems(link: Link, hosts: Sequence[Object]) -> list[Problem]:
    """Problems of the control centre's streams and of the hosts' daemons."""
    own = await link.ask(Self.Request())
    names = [host["host"] for host in hosts]
    found = [
        problem for name in names if name in own["hosts"] for problem in health.of_daemon(name, own["hosts"][name])
    ]
    return [*found, *(health.of_streams(own["centre"]) if "centre" in own else ())]


def _problems(
    hosts: Sequence[Object], statuses: Mapping[str, Object], faults: Sequence[Mapping[str, Any]]
) -> Iterator[Problem]:
    for host in hosts:
        name = host["host"]
        yield from health.of_host(host, statuses.get(name))
        yield from health.of_faults(name, [fault for fault in faults if fault["host"] == name])


# ---- for people ----------------------------------------------------------------------------------


def _show(
    context: Context, hosts: Sequence[Object], statuses: Mapping[str, Object], problems: Sequence[Problem]
) -> None:
    out = context.out
    count = len(problems)
    if problems:
        out.line(out.paint(f"needs attention: {count} {'thing' if count == 1 else 'things'}", "red"))
    else:
        out.line(out.paint("all is well", "green") if hosts else "no hosts are registered")
    for problem in problems[:_MAX_SHOWN]:
        out.line(f"  {cell(problem.where)}  {cell(problem.what)}; {cell(problem.remedy)}")
    if count > _MAX_SHOWN:
        out.line(f"  and {count - _MAX_SHOWN} more: --json shows all")
    for host in hosts:
        status = statuses.get(host["host"])
        out.line()
        out.line(f"{out.paint(cell(host['host']), 'bold')}: {_daemon(host, status)}")
        rows = list(_gpus(host, status))
        if rows:
            out.rows(_COLUMNS, rows)
        for line in _lines(host, status):
            out.line(line)


def _daemon(host: Object, status: Object | None) -> str:
    version = f"vgcd {cell(host['daemon'])}" if host["daemon"] else "vgcd"
    if host["state"] != "up" or status is None:
        return f"{version}, {host['state']}"
    return f"{version}, up since {date(status['started_ns'])} ({_span(status['time_ns'] - status['started_ns'])})"


def _gpus(host: Object, status: Object | None) -> Iterator[Object]:
    allotted = {} if status is None else {gpu["gpu"]: gpu for gpu in status["gpus"]}
    for gpu in host["gpus"]:
        row: Object = {"gpu": gpu["gpu"], "name": gpu["name"]}
        if (found := allotted.get(gpu["gpu"])) is None:
            yield {**row, "pes": f"of {gpu['pes']}", "memory": f"of {size(gpu['memory_bytes'])}"}
            continue
        pes = _of(found["pes_allotted"], found["pes"], str)
        if found["sharing"]:
            pes += f", {found['sharing']} {'VM shares' if found['sharing'] == 1 else 'VMs share'} all"
        memory = _of(found["memory_allotted_bytes"], found["memory_bytes"], size)
        yield {**row, "vms": found["vms"], "pes": pes, "memory": memory}


def _of(allotted: int, there: int, shown: Any) -> str:
    """Amount that is allotted of what there is; and how many times over, if it is more."""
    factor = 0.0 if there == 0 else allotted / there
    over = f" ({factor:{'.3g' if factor < _MANY else '.0f'}} times over)" if factor > 1 else ""
    return f"{shown(allotted)} of {shown(there)}{over}"


def _lines(host: Object, status: Object | None) -> Iterator[str]:
    states = Counter(health.state_of(vm) for vm in host["vms"])
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    yield f"VMs: {len(host['vms'])}{f' ({counts})' if counts else ''}"
    channels = sum(vm["channels"] for vm in host["vms"])
    if status is None:
        yield f"channels: {channels} open"
        return
    if status["undecided"]:
        yield f"GPU not chosen yet: {cell(status['undecided'][:16])}"
    over = ", which the configuration may exceed (overcommit)" if status["overcommit"] else ""
    memory = _of(status["memory_allotted_bytes"], status["memory_bytes"], size)
    yield f"host memory: {memory} for regions and the software GPU{over}"
    yield f"limits: {_enforcement(host, status)}"
    yield f"channels: {status['channels']} open"


def _enforcement(host: Object, status: Object) -> str:
    if status["cgroups"]:
        return f"control groups (version {status['cgroups']}) hold each VM to memory, processes and processors"
    why = "the host has none" if status.get("cgroups_missing") else "off"
    weights = {_WEIGHTS.get(vm.get("weight_of", ""), "") for vm in host["vms"]} - {""}
    weight = f"; weight counts for {' or '.join(sorted(weights))}" if weights else ""
    return f"of each process by itself: address space, threads, files; no control groups ({why}){weight}"


def _span(length_ns: int) -> str:
    minutes = max(0, length_ns) // 60_000_000_000
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
