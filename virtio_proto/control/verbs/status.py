"""Verb about a host as a whole: what it has, what its VMs are allotted of it, and how limits are enforced there."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from virtio_proto.control.verbs.base import LOOK_S, HostError, Rest, Verb, by_host


class GpuAllotment(TypedDict):
    """Allotment of a GPU to VMs, as configured; the software GPU is ``cpu``."""

    gpu: str
    pes: int
    """Processing elements that VMs may have together: of the software GPU, the processors that the daemon may use."""
    pes_allotted: int
    """Sum of the quotas of VMs that have one."""
    vms: int
    sharing: int
    """Number of those VMs without a quota of processing elements, which share all that there are."""
    memory_bytes: int
    memory_allotted_bytes: int


class HostStatus(TypedDict):
    daemon: str
    """Version of the daemon."""
    started_ns: int
    time_ns: int
    overcommit: bool
    """True if the configuration allows VMs more than the host has."""
    gpus: list[GpuAllotment]
    undecided: list[str]
    """VMs whose GPU is chosen when their QEMU connects; they count for none yet."""
    memory_bytes: int
    """Memory of the host that the daemon may use."""
    memory_allotted_bytes: int
    """Regions of all VMs, and the memory of those on the software GPU."""
    cgroups: int
    """Version of the control groups that hold VMs to their limits; 0: the host has no such groups."""
    cgroups_missing: NotRequired[str]
    """Reason why the host has no control groups; absent if the configuration wants none."""
    channels: int
    """Open channels."""
    left_out: NotRequired[dict[str, str]]
    """VMs that were added to stay and cannot be served, each with the reason; absent if all are served."""
    reload_refused: NotRequired[str]
    """Reason why the configuration, as it was when it was read last, does not count; absent if it does."""


class Statuses(TypedDict):
    hosts: dict[str, HostStatus]
    failed: list[HostError]


class Status(Verb):
    """Shows what hosts have, what their VMs are allotted of it, and how limits are enforced there.

    Callers that may not see all VMs get no hosts.
    """

    name = "status"
    timeout_s = LOOK_S
    rest = Rest("GET", "/status", "hosts")
    Answer = HostStatus
    merged = by_host(Statuses)
