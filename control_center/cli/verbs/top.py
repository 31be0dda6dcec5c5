"""Live view of what VMs use, the busiest first: processing elements (PEs), memory, requests, latencies, compilations, functions.

PEs in use are an average of the last second. Requests and latencies are those between the last two times that the host told them: of each
picture, or, from a control centre, of 5 s. A latency lasts from the moment the host takes a launch, a graph or a queued copy off its
ring to its end; quantiles are the end of a class, a quarter above at most.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from control_center.cli.context import Context, add_selector, failures, positive
from control_center.cli.link import Object
from control_center.cli.output import clock, duration, size
from control_center.cli.problems import OK
from control_center.cli.times import length_s
from virtio_proto.control import latency
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.faults import TakeSnapshot
from virtio_proto.control.verbs.functions import Functions
from virtio_proto.control.verbs.hosts import Load, Topology

EXAMPLES: Final = """\
  vgcctl top
  vgcctl top 'host=h1' --every 2s
  vgcctl top vm=web1 --functions       also how often it launches which function, and how long these take
  vgcctl top vm=web1 --kernels         also what its PEs are computing now
  vgcctl top --once --json             one picture, for a program
"""
FIGURES: Final = ("vm_pes_used",)
LIVE: Final = True
MAX_FUNCTIONS: Final = 10
"""Functions of each VM that are shown unless another number is asked for."""
_COLUMNS: Final = (
    "host",
    "vm",
    "state",
    "pes",
    "used",
    "memory",
    "requests_per_s",
    "in_flight",
    "p50",
    "p99",
    "compiling",
)


_NEWS_WITHIN_S: Final = 10.0
"""Time that the first picture waits for a control centre that hears from its hosts now and then."""
_FUNCTION_COLUMNS: Final = ("host", "vm", "function", "launches_per_s", "busy", "mean", "p99")


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    parser.add_argument(
        "--every", type=length_s, default=1.0, metavar="TIME", help="interval between two pictures (default: 1s)"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="end after N pictures")
    parser.add_argument("--once", action="store_const", const=1, dest="count", help="end after one picture")
    parser.add_argument(
        "--functions",
        type=positive,
        nargs="?",
        const=MAX_FUNCTIONS,
        metavar="N",
        help=f"also the N functions of each VM that computed longest, since the picture before (default: {MAX_FUNCTIONS})",
    )
    parser.add_argument(
        "--kernels", action="store_true", help="also count the PEs that each kernel runs on, by a snapshot per picture"
    )


async def run(context: Context) -> int:
    given = context.given
    chosen = parse(given.selector)
    loop = asyncio.get_running_loop()
    rates = Rates()
    rates.step(await context.link.ask(Topology.Request()), loop.time())
    course = None if given.functions is None else FunctionCourse(given.functions)
    if course is not None:
        course.step(await context.link.ask(Functions.Request(selector=given.selector)), loop.time())
    await context.link.ask(Load.Request(selector=given.selector))  # from now on PEs are sampled
    shown, began = 0, loop.time()
    while shown != given.count:
        await asyncio.sleep(given.every)
        hosts = await context.link.ask(Topology.Request())
        if not rates.step(hosts, loop.time()) and shown == 0 and loop.time() - began < _NEWS_WITHIN_S:
            continue  # a control centre has nothing new yet
        load = await context.link.ask(Load.Request(selector=given.selector))
        vms = [
            _figures(host, vm, rates.of.get((host, name)), load["hosts"].get(host))
            for (host, name), vm in _by_name(chosen, hosts).items()
        ]
        vms.sort(key=lambda row: (-(row["pes_used"] or 0.0), row["host"], row["vm"]))
        more: dict[str, list[Object]] = {}
        if course is not None:
            answer = await context.link.ask(Functions.Request(selector=given.selector))
            more["functions"] = course.step(answer, loop.time())
        if given.kernels:
            more["kernels"] = await _kernels(context, given.selector)
        _show(context, load["time_ns"], vms, more)
        shown += 1
    return OK


def _by_name(chosen: Selector, hosts: list[Object]) -> dict[tuple[str, str], Object]:
    """Chosen VMs by host and name."""
    return {
        (host["host"], vm["vm"]): vm
        for host in hosts
        if chosen.matches_host(host["host"])
        for vm in host["vms"]
        if chosen.matches_vm(vm["vm"]) and chosen.matches_gpu(vm["gpu"])
    }


class Rates:
    """Rates of VMs between the last two tellings of their host, which a control centre passes on more often than it hears."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], Object] = {}
        """Rates by host and VM; none of VMs that were told once."""
        self._told_s: dict[str, float] = {}
        self._vms: dict[tuple[str, str], Object] = {}

    def step(self, hosts: Sequence[Object], now_s: float) -> bool:
        """Takes what hosts told; False: nothing is new."""
        is_news = False
        for host in hosts:
            name, told_s = host["host"], host.get("told_ns", now_s * 1e9) / 1e9
            before_s = self._told_s.get(name)
            if host["state"] != "up":
                self.of = {key: rates for key, rates in self.of.items() if key[0] != name}
            if told_s == before_s:
                continue
            is_news, self._told_s[name] = True, told_s
            for vm in host["vms"]:
                key = name, vm["vm"]
                if (before := self._vms.get(key)) is not None and before_s is not None:
                    self.of[key] = _rates(before, vm, told_s - before_s)
                self._vms[key] = vm
        return is_news


def _rates(before: Object, vm: Object, elapsed_s: float) -> Object:
    counts = latency.between(before.get("latency", []), vm.get("latency", []))
    done = vm["requests_done"] - before["requests_done"]
    done = vm["requests_done"] if done < 0 else done  # a new worker counts anew
    return {
        "requests_per_s": done / elapsed_s if elapsed_s > 0 else None,
        "p50_ns": latency.quantile_ns(counts, 0.5),
        "p99_ns": latency.quantile_ns(counts, 0.99),
    }


def _figures(host: str, vm: Object, rates: Object | None, load: Mapping[str, Any] | None) -> dict[str, Any]:
    """Figures of a VM; None for what is not known: a VM that is new, a daemon that does not say."""
    pes = vm.get("usable_pes", vm["pes"]) if vm["confined_to"] is None else len(vm["confined_to"])
    used = None if load is None else load["vm_pes_used"].get(vm["vm"])
    rates = rates or {"requests_per_s": None, "p50_ns": None, "p99_ns": None}
    return {
        "host": host,
        "vm": vm["vm"],
        "state": vm["state"],
        "pes": pes,
        "pes_used": used,
        "memory_used_bytes": vm["memory_used_bytes"],
        "memory_quota_bytes": vm["memory_quota_bytes"],
        "requests_per_s": rates["requests_per_s"],
        "in_flight": vm["in_flight"],
        "p50_ns": rates["p50_ns"],
        "p99_ns": rates["p99_ns"],
        "compiling": vm.get("compiling"),
    }


async def _kernels(context: Context, text: str) -> list[Object]:
    """Number of PEs that each kernel of a VM runs on now."""
    answer = await context.link.ask(TakeSnapshot.Request(selector=text))
    for line in failures(answer):
        context.out.note(f"no snapshot of {line}")
    counts = Counter(
        (host, pe["vm"], pe["kernel"])
        for host, snapshot in answer["hosts"].items()
        for pe in snapshot["pes"]
        if pe["kernel"] is not None
    )
    return [
        {"host": host, "vm": vm, "kernel": kernel, "pes": count}
        for (host, vm, kernel), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


class FunctionCourse:
    """Work of functions from one look to the next. What is new since has got its place, and begun to count, since."""

    def __init__(self, most: int) -> None:
        """`most`: number of functions of each VM that a step returns."""
        self._most = most
        self._before: dict[tuple[str, str, str], Object] = {}
        self._vms: set[tuple[str, str]] = set()
        self._at_s = 0.0

    def step(self, works: list[Object], at_s: float) -> list[Object]:
        """Work since the step before, of VMs that were there then; those that computed longest first, by VM."""
        after = {(work["host"], work["vm"], work["function"]): work for work in works}
        vms = {key[:2] for key in after}
        found: dict[tuple[str, str], list[Object]] = {}
        for key, work in after.items():
            if key[:2] in self._vms:
                row = _work(work, self._before.get(key), at_s - self._at_s)
                if row["launches"]:
                    found.setdefault(key[:2], []).append(row)
        self._before, self._vms, self._at_s = after, vms, at_s
        return [
            row
            for _, rows in sorted(found.items())
            for row in sorted(rows, key=lambda row: (-row["busy_ns"], row["function"]))[: self._most]
        ]


def _work(work: Object, before: Object | None, elapsed_s: float) -> Object:
    """Work of a function since `before`; all of it if it has counted anew since, as a new worker does."""
    if before is None or before["launches"] > work["launches"] or before["busy_ns"] > work["busy_ns"]:
        before = {"launches": 0, "busy_ns": 0, "times": []}
    times = latency.between(before["times"], work["times"])
    timed, busy_ns = sum(times), work["busy_ns"] - before["busy_ns"]
    launches = work["launches"] - before["launches"]
    return {
        "host": work["host"],
        "vm": work["vm"],
        "function": work["function"],
        "launches": launches,
        "busy_ns": busy_ns,
        "launches_per_s": launches / elapsed_s if elapsed_s > 0 else None,
        "busy_part": busy_ns / (elapsed_s * 1e9) if elapsed_s > 0 else None,
        "mean_ns": busy_ns / timed if timed else None,
        "p99_ns": latency.quantile_ns(times, 0.99),
    }


def _show(context: Context, time_ns: int, vms: list[dict[str, Any]], more: Mapping[str, list[Object]]) -> None:
    out = context.out
    if out.as_json:
        out.json({"time_ns": time_ns, "vms": vms, **more})
        return
    out.clear_screen()
    out.rows(_COLUMNS, [_line(vm) for vm in vms], title=clock(time_ns))
    if "functions" in more:
        out.rows(_FUNCTION_COLUMNS, [_function_line(row) for row in more["functions"]], title="functions")
    if "kernels" in more:
        out.rows(("host", "vm", "kernel", "pes"), more["kernels"], title="kernels")


def _function_line(row: Mapping[str, Any]) -> Object:
    rate, part = row["launches_per_s"], row["busy_part"]
    return {
        **row,
        "launches_per_s": None if rate is None else round(rate, 1),
        "busy": None if part is None else f"{100 * part:.1f} %",
        **{key: None if row[f"{key}_ns"] is None else duration(row[f"{key}_ns"]) for key in ("mean", "p99")},
    }


def _line(vm: Mapping[str, Any]) -> Object:
    used, rate = vm["pes_used"], vm["requests_per_s"]
    return {
        **vm,
        "pes": vm["pes"] or None,
        "used": None if used is None else f"{used:.1f}",
        "memory": f"{size(vm['memory_used_bytes'])} of {size(vm['memory_quota_bytes'])}",
        "requests_per_s": None if rate is None else round(rate),
        **{key: None if vm[f"{key}_ns"] is None else duration(vm[f"{key}_ns"]) for key in ("p50", "p99")},
    }
