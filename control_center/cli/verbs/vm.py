"""VMs that hosts serve: lists them, reads their configuration again, adds one, removes one, shows and changes limits.

An added VM stays over reloads, and with --persist over restarts of the daemon. A removed VM is served until its QEMU ends. One of the
configuration comes back with the next reload if the configuration still has it; an added one is forgotten.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_type_hints

from control_center.cli.context import Context, find_vm, printable, report_failures
from control_center.cli.link import Object
from control_center.cli.options import add_actions
from control_center.cli.output import duration, size
from control_center.cli.problems import OK, RefusalError, UsageError
from virtio_proto.control import latency
from virtio_proto.control.verbs.hosts import Topology
from virtio_proto.control.verbs.status import Status
from virtio_proto.control.verbs.vms import (
    LIMIT_NAMES,
    AddVm,
    LimitsInfo,
    ReloadVms,
    RemoveVm,
    SetLimits,
    ShowLimits,
    VmChanges,
)
from virtio_proto.yaml_values import SIZE_UNITS, TIME_UNITS, Located, Problems, scaled

EXAMPLES: Final = """\
  vgcctl vm list                    VMs of all hosts
  vgcctl vm show web1               all that is known of one
  vgcctl vm reload                  have the daemons read their configuration again, as SIGHUP does
  vgcctl vm add web2 --socket /run/vgcd/web2.sock --memory 1G --persist
  vgcctl vm remove web1             serve it no more once its QEMU has ended
  vgcctl vm remove h1/web1 --now    serve it no more, which its QEMU does not survive
  vgcctl vm limits web1             its limits, and what it uses of them
  vgcctl vm limits web1 --memory 2G --pes 2    change them now, for a VM of the file until it is read again
"""
_SETTINGS: Final[dict[str, tuple[str, str]]] = {
    "socket": ("PATH", "where its QEMU connects, on the host"),
    "uuid": ("UUID", "default: made from its name"),
    "region": ("SIZE", "memory that guest and host share, as in QEMU's command line"),
    "region_file": ("PATH", "its file (default: told by its size)"),
    "engine": ("KIND", "auto, cpu, null, cuda, cuda:1, cuda:GPU-<uuid> or cuda:MIG-<uuid>"),
    "pes": ("N", "processing elements it may use"),
    "memory": ("SIZE", "device memory it may use"),
    "queue_depth": ("N", "requests it may have in flight"),
    "contexts": ("N", "contexts it may have"),
    "streams": ("N", "streams of each context"),
    "weight": ("N", "its share of the host's processors, and of its GPU's time, beside other VMs, 1 to 10000"),
    "cores": ("LIST", "processors of the host for its elements alone, such as 2-5, or own: as many as --pes"),
    "deadline": ("TIME", "longest time a kernel may run"),
    "num_queues": ("N", "virtqueues"),
    "sandbox": ("MODE", "strict, best-effort or permissive"),
    "cache_domain": ("NAME", "VMs with which it shares compiled programs"),
}
"""Options of add: a metavariable and a help each. What is left out is as in the configuration's section defaults."""
_NUMBERS: Final = ("pes", "queue_depth", "contexts", "streams", "weight", "num_queues")
_NOW: Final = "do not wait for the end of QEMU, which loses its device, and aborts when the guest next asks for it"


_COLUMNS: Final = (
    "host",
    "vm",
    "origin",
    "gpu",
    "pes",
    "state",
    "generation",
    "allotment_state",
    "requests_done",
    "problem",
)
_COUNTS: Final[Mapping[str, str]] = {
    "file": "until the daemon's configuration is read again, which brings back the file's limits",
    "command line": "until the daemon ends",
    "added": "until the VM is removed, or the daemon ends",
    "persisted": "until the VM is removed, over restarts of the daemon, too",
}
"""Time for which limits that were set count, by the VM's origin."""


def _bounds(limit: str) -> tuple[int, int]:
    """Least and most that the verb takes."""
    wanted, _none = get_args(get_type_hints(SetLimits.Request, include_extras=True)[limit])
    (bounds,) = wanted.__metadata__
    return bounds.ge, bounds.le


def _amount(limit: str, units: Mapping[str, int], allowed: str) -> Callable[[str], int]:
    """Type of an option for a number with a unit, as in the daemon's configuration."""
    parser = scaled(units, *_bounds(limit), allowed)

    def parse(text: str) -> int:
        value = parser(Problems("", numbered=False), "", Located(text, 1))
        if value is None:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: {allowed}")
        return value

    return parse


def _number(limit: str) -> Callable[[str], int]:
    """Type of an option for a number."""
    least, most = _bounds(limit)

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text[:20]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.80}; allowed: a whole number of {least} to {most}")
        return int(text)

    return parse


def _elements(text: str) -> int:
    """Number of elements; 0 for all."""
    _least, most = _bounds("pes")
    if text == "all":
        return 0
    if not text.isdecimal() or not 1 <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r:.80}; allowed: a whole number of 1 to {most}, or all")
    return int(text)


_SHOWN: Final[Mapping[str, Callable[[int], str]]] = {"memory_bytes": size, "deadline_ns": duration}
"""Functions that show limits with their units."""


def add(parser: argparse.ArgumentParser) -> None:
    action = add_actions(parser)
    action("list", "list VMs")
    action("show", "show a VM").add_argument("vm", metavar="VM", help="its name, or host/name")
    reload = action("reload", "have daemons read their configuration again")
    reload.add_argument("host", nargs="?", metavar="HOST", help="one host (default: all)")
    reload.add_argument("--now", action="store_true", help=_NOW)
    more = action("add", "serve one VM more, without a file")
    more.add_argument("vm", type=printable, metavar="VM", help="its name, or host/name")
    for name, (metavar, text) in _SETTINGS.items():
        kind = int if name in _NUMBERS else str
        option = f"--{name.replace('_', '-')}"
        more.add_argument(option, type=kind, required=name == "socket", metavar=metavar, help=text)
    more.add_argument("--persist", action="store_true", help="serve it again after a restart of the daemon")
    remove = action("remove", "serve a VM no more")
    remove.add_argument("vm", metavar="VM", help="its name, or host/name")
    remove.add_argument("--now", action="store_true", help=_NOW)
    limits = action(
        "limits",
        "show a VM's limits, or change some while it computes: for a VM of the daemon's configuration until that is read again, "
        "which brings back the file's limits; for an added VM as long as it is served. Its other settings, such as cores, change in the "
        "file, or when it is removed and added",
    )
    memory = _amount("memory_bytes", SIZE_UNITS, "a size such as 512M or 2G, from 1M to 64T")
    deadline = _amount("deadline_ns", TIME_UNITS, "a time such as 500ms, 10s or 2m, up to 24h")
    limits.add_argument("vm", metavar="VM", help="its name, or host/name")
    limits.add_argument("--pes", type=_elements, metavar="N|all", help="processing elements")
    limits.add_argument("--memory", type=memory, metavar="SIZE", help="device memory, such as 512M or 2G")
    limits.add_argument(
        "--queue-depth", type=_number("queue_depth"), metavar="N", help="requests in flight, all queues together"
    )
    limits.add_argument("--contexts", type=_number("contexts"), metavar="N", help="contexts")
    limits.add_argument("--streams", type=_number("streams"), metavar="N", help="of each context")
    limits.add_argument("--weight", type=_number("weight"), metavar="N", help=_SETTINGS["weight"][1])
    limits.add_argument(
        "--deadline", type=deadline, metavar="T", help="longest time of a launch, such as 500ms, 10s, 2m"
    )


async def run(context: Context) -> int:
    match context.given.action:
        case "list":
            return await _list(context)
        case "show":
            return await _show(context)
        case "reload":
            return await _reload(context)
        case "add":
            return await _add(context)
        case "limits":
            return await _limits(context)
        case _:
            return await _remove(context)


async def _list(context: Context) -> int:
    hosts = await context.link.ask(Topology.Request())
    vms: list[Object] = [{"host": host["host"], **vm} for host in hosts for vm in host["vms"]]
    if context.out.as_json:
        context.out.json(vms)
    else:
        context.out.rows(_COLUMNS, (_listed(vm) for vm in vms))
    return OK


def _listed(vm: Object) -> Object:
    """Row of a VM in the list."""
    problems = [vm[key] for key in ("problem", "ring_problem") if vm.get(key)]
    return {**vm, "pes": _pes(vm), **({"problem": "; ".join(problems)} if problems else {})}


def _pes(vm: Object) -> object:
    """Number of a VM's elements, and of those that it may use; None: it has none yet."""
    return f"{vm['usable_pes']} of {vm['pes']}" if "usable_pes" in vm else vm["pes"] or None


async def _show(context: Context) -> int:
    host, vm = await find_vm(context.link, context.given.vm)
    if context.out.as_json:
        context.out.json({"host": host, **vm})
    else:
        shown = {"host": host, **vm, **_for_people(vm)}
        context.out.rows(("what", "value"), [{"what": key, "value": value} for key, value in shown.items()])
    return OK


def _for_people(vm: Object) -> Object:
    """A VM's figures with their units, its latency as quantiles, its GPU time as a share of that of others, too."""
    shown: Object = {key: size(value) for key, value in vm.items() if key.endswith("_bytes")}
    shown |= {key: duration(value) for key, value in vm.items() if key.endswith("_ns") and value is not None}
    shown["pes"] = _pes(vm)
    quantiles = [latency.quantile_ns(vm.get("latency", []), part) for part in (0.5, 0.99)]
    median, most = (None if value is None else duration(value) for value in quantiles)
    shown["latency"] = None if median is None else f"p50 {median}, p99 {most}"
    if vm.get("gpu_shared_of_ns"):
        shown["gpu_share"] = f"{100 * vm['gpu_shared_ns'] / vm['gpu_shared_of_ns']:.1f} % beside others"
    return shown


async def _reload(context: Context) -> int:
    answer = await context.link.ask(ReloadVms.Request(now=context.given.now), context.given.host)
    if context.out.as_json:
        context.out.json(answer)
    else:
        for host, changes in answer["hosts"].items():
            context.out.note(f"{host}: {_told(changes)}")
    return report_failures(context, answer)


async def _add(context: Context) -> int:
    given = context.given
    host, _, name = given.vm.rpartition("/")
    host = host or await _only_host(context)
    settings = {key: value for key in _SETTINGS if (value := getattr(given, key)) is not None}
    changes = await context.link.ask(AddVm.Request(vm=name, persist=given.persist, **settings), host)
    if context.out.as_json:
        context.out.json(changes)
    else:
        context.out.note(f"{host}: {_told(changes)}")
    return OK


async def _only_host(context: Context) -> str:
    """:raise UsageError: there are several hosts."""
    hosts = [item["host"] for item in await context.link.ask(Topology.Request())]
    if len(hosts) == 1:
        return str(hosts[0])
    raise UsageError(f"there are {len(hosts)} hosts ({', '.join(hosts[:16])}); allowed: HOST/{context.given.vm}")


async def _remove(context: Context) -> int:
    host, vm = await _to_remove(context)
    changes = await context.link.ask(RemoveVm.Request(vm=vm, now=context.given.now), host)
    if context.out.as_json:
        context.out.json(changes)
    else:
        context.out.note(f"{host}: {_told(changes)}")
    return OK


async def _to_remove(context: Context) -> tuple[str, str]:
    """Host and name of a VM that is served, or that was to stay and cannot be served.

    :raise RefusalError: no VM has that name, or several have.
    """
    try:
        host, vm = await find_vm(context.link, context.given.vm)
    except RefusalError:
        wanted, _, name = context.given.vm.rpartition("/")
        left_out = [host for host in await _hosts_without(context, name) if wanted in ("", host)]
        if len(left_out) != 1:
            raise
        return left_out[0], name
    return host, vm["vm"]


async def _hosts_without(context: Context, vm: str) -> list[str]:
    """Hosts on which a VM of that name was to stay and cannot be served, as far as they tell."""
    try:
        statuses = (await context.link.ask(Status.Request()))["hosts"]
    except RefusalError:
        return []
    return [host for host, status in statuses.items() if vm in status.get("left_out", {})]


async def _limits(context: Context) -> int:
    host, vm = await find_vm(context.link, context.given.vm)
    given = context.given
    asked = {
        "pes": given.pes,
        "memory_bytes": given.memory,
        "queue_depth": given.queue_depth,
        "contexts": given.contexts,
        "streams": given.streams,
        "weight": given.weight,
        "deadline_ns": given.deadline,
    }
    is_change = any(value is not None for value in asked.values())
    request = SetLimits.Request(vm=vm["vm"], **asked) if is_change else ShowLimits.Request(vm=vm["vm"])
    info: LimitsInfo = await context.link.ask(request, host)
    if context.out.as_json:
        context.out.json({"host": host, **info})
        return OK
    context.out.rows(("limit", "configured", "enforced", "used", "state"), [_row(info, name) for name in LIMIT_NAMES])
    context.out.note(f"allotment {info['allotment']}: {info['allotment_state']}")
    if is_change:
        context.out.note(f"this counts {_COUNTS.get(vm.get('origin', ''), _COUNTS['file'])}")
    return OK


def _row(info: LimitsInfo, name: str) -> dict[str, str]:
    """Row of the table about a limit."""
    figures: tuple[Mapping[str, Any], ...] = (info["configured"], info["enforced"], info["used"])
    configured, enforced, used = (given.get(name) for given in figures)
    shown = _SHOWN.get(name, str)
    states = {
        "pending": info["pending"],
        "from the next QEMU on": info["later"],
        "exceeded: gets no more": info["exceeded"],
    }
    return {
        "limit": name.removesuffix("_bytes").removesuffix("_ns"),
        "configured": "all" if configured is None else shown(configured),
        "enforced": "all" if enforced is None else shown(enforced),
        "used": "-" if used is None else shown(used),
        "state": ", ".join(text for text, names in states.items() if name in names) or "-",
    }


def _told(changes: VmChanges) -> str:
    parts = [f"{kind} {', '.join(changes[kind])}" for kind in ("added", "removed", "changed") if changes[kind]]
    if live := changes.get("live"):
        parts.append(f"other limits for {', '.join(live)} now")
    waiting = f" ({', '.join(changes['waiting'])} when QEMU ends)" if changes["waiting"] else ""
    waiting += "".join(f"; {vm}: {', '.join(keys)} when QEMU ends" for vm, keys in changes.get("later", {}).items())
    return ("; ".join(parts) or "nothing has changed") + waiting
