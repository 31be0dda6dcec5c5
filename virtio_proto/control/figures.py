"""Definitions of the figures that daemons measure, and that the page, ``vgcctl``, Prometheus and the docs show.

Each number is defined here once, with its unit. The help of series and of ``vgcctl``'s verbs and the page's
(``control_center/web/js/figures.js``) are made of it; `tests/unit/test_figures.py` compares the API's fields and docs/control.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Figure:
    """Definition of a number."""

    title: str
    """Name for people, in every place where it is shown."""
    unit: str
    text: str
    """Definition, a sentence or two."""
    field: str
    """Field of an answer, as ``type.field`` in `virtio_proto.control.api` or `control_center.snapshots`."""
    series: str = ""
    """Prometheus series; "": it has none. Times are seconds there."""


FIGURES: Final[Mapping[str, Figure]] = {
    "busy_share": Figure(
        "busy share",
        "0 to 1",
        "Part of the last 2 to 4 seconds, or of the time since perf was opened if that is shorter, in which the PE ran blocks.",
        "PeStat.busy_share",
        "vgc_pe_utilization_ratio",
    ),
    "busy": Figure(
        "busy",
        "ns",
        "Time in which the PE ran blocks, as far as perf or load was open on it, since its worker's start.",
        "PeStat.busy_ns",
        "vgc_pe_busy_seconds_total",
    ),
    "stall": Figure(
        "stall",
        "ns",
        "Time between two blocks of one launch, in which the PE ran none, counted as busy is.",
        "PeStat.stall_ns",
        "vgc_pe_stall_seconds_total",
    ),
    "vm_load": Figure(
        "load of a VM",
        "0 to 1",
        "Mean busy part of the VM's own PEs in the last second. VMs' loads do not add up to that of their GPU: PEs used do.",
        "LoadInfo.vms",
        "vgc_vm_utilization_ratio",
    ),
    "vm_pes_used": Figure(
        "PEs used by a VM",
        "PEs",
        "Sum of the busy parts of the VM's PEs in the last second. Those of a GPU's VMs add up to the GPU's.",
        "LoadInfo.vm_pes_used",
        "vgc_vm_pes_used",
    ),
    "gpu_pes_used": Figure(
        "PEs used of a GPU",
        "PEs",
        "Sum of the PEs used by the GPU's VMs. On the software GPU that may be more than it has, as VMs' PEs share processors.",
        "LoadInfo.gpu_pes_used",
        "vgc_gpu_pes_used",
    ),
    "gpu_load": Figure(
        "load of a GPU",
        "0 to 1",
        "PEs used of the GPU, divided by the PEs that it has; 1 at most.",
        "LoadInfo.gpus",
        "vgc_gpu_utilization_ratio",
    ),
    "host_load": Figure(
        "load of a host",
        "0 to 1",
        "PEs used of all GPUs of the host, divided by the PEs that they have; 1 at most.",
        "LoadInfo.host",
    ),
    "channels": Figure(
        "channels of a VM",
        "channels",
        "Channels that instances of clients hold on the VM's PEs, without those that the control system opens to measure load.",
        "VmInfo.channels",
        "vgc_vm_channels",
    ),
    "all_channels": Figure(
        "all channels of a host",
        "channels",
        "Channels on the PEs of the host's VMs, with those that the control system opens to measure load.",
        "SelfInfo.channels",
        "vgc_control_channels",
    ),
    "changed": Figure(
        "changed",
        "PEs",
        "PEs that do something else: kernel, launch, block or hung differ, or one of the snapshots lacks the PE.",
        "SnapshotDiff.changed",
    ),
    "stuck": Figure(
        "stuck",
        "PEs",
        "PEs that are busy with the same block of the same launch, and not newly hung.",
        "SnapshotDiff.stuck",
    ),
    "same": Figure("idle as before", "PEs", "PEs that are idle in both snapshots.", "SnapshotDiff.same"),
}


def help_of(series: str) -> str:
    """Definition of the figure that a Prometheus series shows.

    :raise KeyError: no figure has that series.
    """
    return {figure.series: figure.text for figure in FIGURES.values()}[series]


def glossary(names: tuple[str, ...]) -> str:
    """Lines that define these figures, for the help of a command."""
    return "".join(f"  {FIGURES[name].title} ({FIGURES[name].unit}): {FIGURES[name].text}\n" for name in names)
