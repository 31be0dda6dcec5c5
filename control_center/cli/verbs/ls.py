"""Lists hosts, GPUs, VMs and open channels."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from control_center.cli.context import Context, chooses
from control_center.cli.link import Object
from control_center.cli.output import LEVELS, duration, ranges, size
from control_center.cli.problems import OK, UsageError
from virtio_proto.control.selector import Selector, SelectorError, parse
from virtio_proto.control.verbs.channels import Ls
from virtio_proto.control.verbs.hosts import Topology

EXAMPLES: Final = """\
  vgcctl ls                          everything
  vgcctl ls vms 'host=h1'            the VMs of a host
  vgcctl ls channels --json          open channels, for a program
"""
FIGURES: Final = ("channels",)
_MUCH_NS: Final = 1_000_000_000
"""CPU time that no request explains from which on it is shown: answers to the daemon take a little, too."""
WHAT: Final = ("all", "hosts", "gpus", "vms", "channels")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WHAT|SELECTOR", help=f"{', '.join(WHAT)}; and a selector")


async def run(context: Context) -> int:
    what, chosen = _words(context.given.words)
    found = await _found(context, chosen, channels=what in ("all", "channels"))
    out = context.out
    if out.as_json:
        out.json(found if what == "all" else found[what])
        return OK
    for kind, (columns, line) in _TABLES.items():
        if what in ("all", kind):
            out.rows(columns, [line(item) for item in found[kind]], title=kind)
    for vm in found["vms"]:
        if what in ("all", "vms") and vm.get("unseen"):
            out.note(f"{vm['host']}/{vm['vm']}: no hooks, its kernels are not seen: {vm['unseen']}")
    return OK


async def _found(context: Context, chosen: Selector, *, channels: bool) -> Object:
    """Hosts, GPUs, VMs and channels that the selector chooses."""
    hosts = [host for host in await context.link.ask(Topology.Request()) if chosen.matches_host(host["host"])]
    instances = await context.link.ask(Ls.Request()) if channels else []
    return {
        "hosts": hosts,
        "gpus": [
            {"host": host["host"], **gpu}
            for host in hosts
            for gpu in host["gpus"]
            if chosen.matches_gpu(gpu["gpu"], gpu["uuid"])
        ],
        "vms": [
            {"host": host["host"], **vm}
            for host in hosts
            for vm in host["vms"]
            if chosen.matches_vm(vm["vm"]) and chosen.matches_gpu(vm["gpu"])
        ],
        "channels": [item for item in instances if chooses(chosen, item)],
    }


def _words(words: Sequence[str]) -> tuple[str, Selector]:
    """Kind of things to list, and the selector.

    :raise UsageError: a word is neither a kind nor a selector.
    """
    what = [word for word in words if word in WHAT]
    rest = [word for word in words if word not in WHAT]
    if len(what) > 1 or len(rest) > 1 or any("=" not in word for word in rest):
        raise UsageError(f"{' '.join(words)!r}; allowed: one of {', '.join(WHAT)}, and one selector")
    try:
        return (what or ["all"])[0], parse((rest or [""])[0])
    except SelectorError as error:
        raise UsageError(str(error)) from None


def _host(host: Object) -> Object:
    return {**host, "gpus": len(host["gpus"]), "vms": len(host["vms"])}


def _gpu(gpu: Object) -> Object:
    return {
        **gpu,
        "memory": size(gpu["memory_bytes"]),
        "driver": gpu.get("driver_version"),
        "vbios": gpu.get("vbios_version"),
    }


def _vm(vm: Object) -> Object:
    memory = f"{size(vm['memory_used_bytes'])} of {size(vm['memory_quota_bytes'])}"
    marks = {"quiesced": bool(vm.get("quiesced")), "no hooks": bool(vm.get("unseen"))}
    state = ", ".join([vm["state"], *(word for word, holds in marks.items() if holds)])
    confined_to = ranges(vm["confined_to"])
    error_ns = vm.get("clock_error_ns")
    clock = None if error_ns is None else f"+-{duration(error_ns)}"
    shown = {
        "pes": vm["pes"] or None,
        "state": state,
        "memory": memory,
        "requests": vm["requests_done"],
        "confined_to": confined_to,
    }
    return {**vm, **shown, "clock": clock, "cpu": _cpu_time(vm)}


def _cpu_time(vm: Object) -> str | None:
    """CPU time of the VM's workers, with what no request explains if that is much; None: the daemon does not say."""
    if "cpu_ns" not in vm:
        return None
    stray_ns = vm.get("stray_cpu_ns", 0)
    return duration(vm["cpu_ns"]) + (f", stray {duration(stray_ns)}" if stray_ns >= _MUCH_NS else "")


def summary(instance: Object) -> Object:
    """Instance as a line of a table."""
    sample = instance["totals"].get("sample", 0)
    kept = f"1 of {1 << sample}" if sample else "all"
    return {**instance, **instance["totals"], "kept": kept, "level": LEVELS[instance["level"]]}


_TABLES: Final[dict[str, tuple[tuple[str, ...], Callable[[Object], Object]]]] = {
    "hosts": (("host", "state", "gpus", "vms", "daemon", "url"), _host),
    "gpus": (("host", "gpu", "name", "kind", "pes", "memory", "driver", "vbios"), _gpu),
    "vms": (
        (
            "host",
            "vm",
            "gpu",
            "pes",
            "confined_to",
            "state",
            "memory",
            "requests",
            "cpu",
            "channels",
            "firmware",
            "clock",
        ),
        _vm,
    ),
    "channels": (
        (
            "instance",
            "function",
            "selector",
            "owner",
            "level",
            "policy",
            "channels",
            "kept",
            "records",
            "lost",
            "skipped",
        ),
        summary,
    ),
}
