"""Health of hosts and VMs: what needs attention, each with its remedy, from what hosts tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_STATES: Final[Mapping[str, tuple[str, str]]] = {
    "failed": (
        "its workers end before they are ready",
        "vgcd's log says why; vgcctl worker reset {name} tries again now",
    ),
    "recovering": ("its worker is gone, and the next one gets ready", "wait; vgcctl fault ls says what ended it"),
    "unresponsive": ("its worker does not answer", "wait until it is replaced, or vgcctl worker reset {name}"),
}
"""States of a VM that need attention: what they mean, and what to do."""
_ALLOTMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "never acknowledged": (
        "its guest has never acknowledged its limits, which hold all the same",
        "update the driver in the guest: it knows nothing of limits that change",
    ),
    "wrong": (
        "its guest acknowledges limits that it never got, and the true ones hold",
        "update the driver in the guest; a hostile guest can do this, too",
    ),
}
"""Ways in which a guest stands to its allotment that need attention."""

LOW_DISK_BYTES: Final = 128 << 20
"""Free space on a recording's disk below which it needs attention: twice what the recorder keeps in memory."""
LATE_NS: Final = 10 * 10**9
"""Age of what is not in the store yet from which on a recorder needs attention."""
MAX_SKEW_NS: Final = 100_000_000
"""Difference of two clocks from which on it needs attention."""
MAX_DELAY_NS: Final = 250_000_000
"""Delay of a daemon's loop from which on it needs attention."""
RECENT_NS: Final = 60 * 10**9
"""Time for which something that happens now and then needs attention."""
_NS_PER_S: Final = 10**9


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs attention."""

    host: str
    vm: str | None
    what: str
    remedy: str

    @property
    def where(self) -> str:
        return self.host if self.vm is None else f"{self.host}/{self.vm}"


def state_of(vm: Mapping[str, Any]) -> str:
    """State of a VM in a word or three, for a count of VMs by state."""
    if vm.get("origin") == "leaving":
        return "ending"
    if vm.get("quiesced"):
        return "held"
    return {"ready": "serving", "stopped": "waiting for QEMU", "recovering": "being replaced", "failed": "down"}.get(
        vm["state"], str(vm["state"])
    )


def of_link(host: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a control centre with a host: it does not answer, or its clock is wrong."""
    name, skew_ns = host["host"], host.get("clock_skew_ns", 0)
    if host["state"] != "up":
        known = "; what is shown of it is old" if host["vms"] or host["gpus"] else ""
        yield Problem(
            name, None, f"is {host['state']}: {host['reason'] or 'it does not answer'}{known}", "is vgcd running there?"
        )
    elif abs(skew_ns) > MAX_SKEW_NS:
        what = f"its clock differs by {abs(skew_ns) / _NS_PER_S:.3g} s: times of its records are wrong"
        yield Problem(name, None, what, "run an NTP client on both: chrony")


def of_daemon(host: str, info: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a host's daemon; `info`: its `virtio_proto.control.api.SelfInfo`."""
    if info["loop_delay_ns"] > MAX_DELAY_NS:
        what = f"vgcd did nothing for {info['loop_delay_ns'] / _NS_PER_S:.3g} s within the last minute, while its VMs waited"
        yield Problem(host, None, what, "its processors or its memory are overloaded: vgcctl top, vmstat")
    for link in info["link_pauses"]:
        if info["time_ns"] - link["last_ns"] < RECENT_NS:
            what = f"vgcd reads {link['link']} of its worker late, as they take more time than one VM may"
            remedy = (
                "fewer channels, or a higher level" if link["link"] == "records" else "vgcd's log says more of the VM"
            )
            yield Problem(host, link["vm"], what, remedy)


def of_streams(centre: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a control centre's streams; `centre`: its `virtio_proto.control.api.CentreInfo`."""
    at_ns = centre["dropped_ns"]
    if at_ns is not None and centre["time_ns"] - at_ns < RECENT_NS:
        what = f"streams drop messages, as clients read too slowly: {centre['dropped']} since the centre's start"
        yield Problem("centre", None, what, "fewer channels, or a narrower selector in the page's bar")


def of_host(host: Mapping[str, Any], status: Mapping[str, Any] | None) -> Iterator[Problem]:
    """Problems of a host and its VMs. `status`: its answer to the verb of this name; None: it gave no answer."""
    name = host["host"]
    yield from of_link(host)
    if host["state"] != "up":
        return
    if status is not None and status.get("cgroups_missing"):
        yield Problem(
            name,
            None,
            f"has no control groups, so limits hold for each process alone: {status['cgroups_missing']}",
            "run vgcd as the shipped unit or as root, or say cgroups: off in its configuration if that is meant",
        )
    if status is not None and status.get("reload_refused"):
        what = f"goes on as before, as its configuration was refused when it was read again: {status['reload_refused']}"
        yield Problem(
            name,
            None,
            what,
            "mend that, in the file or at VMs that were added or limited without it (vgcctl vm list), then: vgcctl vm reload",
        )
    left_out = {} if status is None else status.get("left_out", {})
    for vm, reason in left_out.items():
        what = f"was added to stay, and cannot be served: {reason}"
        yield Problem(name, vm, what, f"mend that, then: vgcctl vm reload; or forget it: vgcctl vm remove {name}/{vm}")
    for vm in host["vms"]:
        yield from _of_vm(name, vm)


def _of_vm(host: str, vm: Mapping[str, Any]) -> Iterator[Problem]:
    name = f"{host}/{vm['vm']}"

    def problem(what: str, remedy: str) -> Problem:
        return Problem(host, vm["vm"], what, remedy.format(name=name))

    if vm["state"] in _STATES:
        yield problem(*_STATES[vm["state"]])
    if vm.get("problem"):
        yield problem(f"cannot be served: {vm['problem']}", "make room on the host, or give it less: it is tried again")
    if vm.get("ring_problem"):
        remedy = "give QEMU a region of the size that 'region' says, or change that: docs/device.md has the options"
        yield problem(f"its guest cannot use the device: {vm['ring_problem']}", remedy)
    if vm.get("quiesced"):
        yield problem("is held: it takes no new requests", "vgcctl worker resume {name}")
    found = None if vm.get("ring_problem") else _ALLOTMENTS.get(str(vm.get("allotment_state")))
    if found is not None:
        yield problem(*found)
    if vm.get("pending"):
        what = f"limits that were changed do not hold yet: {', '.join(map(_key, vm['pending']))}"
        yield problem(what, "wait a second; vgcctl vm limits {name} says more")
    if vm.get("exceeded"):
        keys = [_key(limit) for limit in vm["exceeded"]]
        what = f"uses more than its lowered limits, and gets no more: {', '.join(keys)}"
        options = " ".join(f"--{key.replace('_', '-')} N" for key in keys)
        yield problem(what, f"wait until it uses less, or raise them: vgcctl vm limits {{name}} {options}")


def _key(limit: str) -> str:
    """Key of a limit in the configuration's `quota`, which `vgcctl vm limits` has, too."""
    return limit.removesuffix("_bytes").removesuffix("_ns")


def of_faults(host: str, faults: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Problems of faults that are not cleared, one per VM and kind."""
    counts = Counter[tuple[str, str]]()
    for fault in faults:
        if not fault["cleared"]:
            counts[fault["vm"], fault["kind"]] += fault["count"]
    for (vm, kind), count in sorted(counts.items()):
        times = "once" if count == 1 else f"{count} times"
        yield Problem(
            host,
            vm,
            f"fault {kind}, {times}",
            f"vgcctl fault ls vm={vm} says what to do, vgcctl fault clear that it was done",
        )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def of_recorder(recorder: Mapping[str, Any] | None) -> Iterator[Problem]:
    """Problems of a control centre's recording; `recorder`: its `virtio_proto.control.api.RecorderStatus`, None if none."""
    if recorder is None:
        return
    failure, free, left_out = recorder["failure"], recorder["free_bytes"], recorder["left_out"]
    is_short = free is not None and free < LOW_DISK_BYTES
    if (ended := recorder["ended"]) is not None:
        what = f"the recorder has ended, and nothing is recorded any more: {ended['error']}"
        yield Problem("centre", None, what, "restart the control centre, and report what its log says of it: a bug")
        return
    if failure is not None and failure["to_ns"] is None:
        remedy = f"make room there: {_mib(free)} are free" if is_short else "mend that"
        what = f"the recorder cannot write: {failure['error']}; {_mib(recorder['queued_bytes'])} wait in memory"
        yield Problem("centre", None, what, f"{remedy}; it is tried again each second")
    elif is_short:
        what = f"the recorder's disk is nearly full: {_mib(free)} are free"
        yield Problem("centre", None, what, "make room there, or record less: retention and size of the recorder")
    elif recorder["lag_ns"] > LATE_NS:
        what = f"the recorder is {recorder['lag_ns'] / _NS_PER_S:.0f} s behind"
        yield Problem("centre", None, what, "a quicker disk, or fewer channels")
    if left_out:
        times = recorder["failures"]
        cause = f", or could not write ({'once' if times == 1 else f'{times} times'})" if times else ""
        what = f"the recorder was too slow{cause}, and left out {left_out} batches and events"
        yield Problem("centre", None, what, "a quicker or larger disk, or fewer channels; a restart counts anew")
