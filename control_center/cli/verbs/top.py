"""Live view of what VMs use, the busiest first: processing elements (PEs), memory, requests, latencies, compilations.

PEs in use are an average of the last second. Requests and latencies are those since the picture before. A latency lasts from the moment
the host takes a launch, a graph or a queued copy off its ring to its end; quantiles are the end of a class, a quarter above at most.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from control_center.cli.context import Context, add_selector, failures, positive
from control_center.cli.link import Object
from control_center.cli.output import clock, duration, size
from control_center.cli.problems import OK
from control_center.cli.times import length_s
from virtio_proto.control import latency
from virtio_proto.control.selector import Selector, parse
from virtio_proto.control.verbs.faults import TakeSnapshot
from virtio_proto.control.verbs.hosts import Load, Topology

EXAMPLES: Final = """\
  vgcctl top
  vgcctl top 'host=h1' --every 2s
  vgcctl top vm=web1 --kernels         also what its PEs are computing now
  vgcctl top --once --json             one picture, for a program
"""
LIVE: Final = True
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


def add(parser: argparse.ArgumentParser) -> None:
    add_selector(parser)
    parser.add_argument(
        "--every", type=length_s, default=1.0, metavar="TIME", help="interval between two pictures (default: 1s)"
    )
    parser.add_argument("--count", type=positive, metavar="N", help="end after N pictures")
    parser.add_argument("--once", action="store_const", const=1, dest="count", help="end after one picture")
    parser.add_argument(
        "--kernels", action="store_true", help="also count the PEs that each kernel runs on, by a snapshot per picture"
    )


async def run(context: Context) -> int:
    given = context.given
    chosen = parse(given.selector)
    loop = asyncio.get_running_loop()
    before, since = _by_name(chosen, await context.link.ask(Topology.Request())), loop.time()
    await context.link.ask(Load.Request(selector=given.selector))  # from now on PEs are sampled
    shown = 0
    while shown != given.count:
        await asyncio.sleep(given.every)
        after, now = _by_name(chosen, await context.link.ask(Topology.Request())), loop.time()
        load = await context.link.ask(Load.Request(selector=given.selector))
        vms = [
            _figures(host, vm, before.get((host, name)), now - since, load["hosts"].get(host))
            for (host, name), vm in after.items()
        ]
        vms.sort(key=lambda row: (-(row["pes_used"] or 0.0), row["host"], row["vm"]))
        kernels = await _kernels(context, given.selector) if given.kernels else None
        _show(context, load["time_ns"], vms, kernels)
        before, since = after, now
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


def _figures(
    host: str, vm: Object, before: Object | None, elapsed_s: float, load: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Figures of a VM since `before`; None for what is not known: a VM that is new, a daemon that does not say."""
    pes = vm["pes"] if vm["confined_to"] is None else len(vm["confined_to"])
    busy = None if load is None else load["vms"].get(vm["vm"])
    counts: list[int] = []
    done = None
    if before is not None:
        counts = latency.between(before.get("latency", []), vm.get("latency", []))
        done = vm["requests_done"] - before["requests_done"]
        done = vm["requests_done"] if done < 0 else done  # a new worker counts anew
    return {
        "host": host,
        "vm": vm["vm"],
        "state": vm["state"],
        "pes": pes,
        "pes_used": None if busy is None else busy * vm["pes"],
        "memory_used_bytes": vm["memory_used_bytes"],
        "memory_quota_bytes": vm["memory_quota_bytes"],
        "requests_per_s": None if done is None or elapsed_s <= 0 else done / elapsed_s,
        "in_flight": vm["in_flight"],
        "p50_ns": latency.quantile_ns(counts, 0.5),
        "p99_ns": latency.quantile_ns(counts, 0.99),
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


def _show(context: Context, time_ns: int, vms: list[dict[str, Any]], kernels: list[Object] | None) -> None:
    out = context.out
    if out.as_json:
        out.json({"time_ns": time_ns, "vms": vms} | ({} if kernels is None else {"kernels": kernels}))
        return
    out.clear_screen()
    out.rows(_COLUMNS, [_line(vm) for vm in vms], title=clock(time_ns))
    if kernels is not None:
        out.rows(("host", "vm", "kernel", "pes"), kernels, title="kernels")


def _line(vm: Mapping[str, Any]) -> Object:
    used, rate = vm["pes_used"], vm["requests_per_s"]
    return {
        **vm,
        "used": None if used is None else f"{used:.1f}",
        "memory": f"{size(vm['memory_used_bytes'])} of {size(vm['memory_quota_bytes'])}",
        "requests_per_s": None if rate is None else round(rate),
        **{key: None if vm[f"{key}_ns"] is None else duration(vm[f"{key}_ns"]) for key in ("p50", "p99")},
    }
