"""Prometheus' text format 0.0.4, and every series that the control centre has, with what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

Kind = Literal["gauge", "counter"]

METRICS: Final[Mapping[str, tuple[Kind, str]]] = {
    "vgc_host_up": ("gauge", "1 if the host's daemon answers, 0 if what is known of it is old."),
    "vgc_centre_streams": ("gauge", "Streams that clients of the control centre have open."),
    "vgc_centre_memory_bytes": ("gauge", "Resident memory of the control centre."),
    "vgc_gpu_info": ("gauge", "1; with the versions of the driver and the VBIOS."),
    "vgc_gpu_pes": ("gauge", "Processing elements of the GPU."),
    "vgc_gpu_utilization_ratio": ("gauge", "Busy part of the GPU's last second."),
    "hw_gpu_utilization_ratio": ("gauge", "hw.gpu.utilization: fraction of time spent in a specific task."),
    "hw_gpu_memory_limit_bytes": ("gauge", "hw.gpu.memory.limit: size of the GPU memory."),
    "hw_gpu_memory_usage_bytes": ("gauge", "hw.gpu.memory.usage: GPU memory used by the VMs."),
    "hw_gpu_memory_utilization_ratio": ("gauge", "hw.gpu.memory.utilization: fraction of GPU memory used by the VMs."),
    "vgc_vm_ready": ("gauge", "1 if the VM's worker takes requests."),
    "vgc_vm_pes": ("gauge", "Processing elements that the VM's work may run on."),
    "vgc_vm_memory_used_bytes": ("gauge", "Device memory that the VM has allocated."),
    "vgc_vm_memory_quota_bytes": ("gauge", "Device memory that the VM may allocate."),
    "vgc_vm_requests_total": ("counter", "Requests of the VM that were done."),
    "vgc_vm_requests_failed_total": ("counter", "Requests of the VM that failed."),
    "vgc_vm_requests_in_flight": ("gauge", "Requests of the VM that are being worked on."),
    "vgc_vm_channels": ("gauge", "Open channels to the VM's elements."),
    "vgc_vm_worker_generation": ("gauge", "How often the VM's worker was started."),
    "vgc_vm_utilization_ratio": ("gauge", "Busy part of the VM's elements' last second."),
    "vgc_vm_pe_utilization_min_ratio": ("gauge", "Of the VM's least busy element."),
    "vgc_vm_pe_utilization_median_ratio": ("gauge", "Of the VM's element in the middle."),
    "vgc_vm_pe_utilization_max_ratio": ("gauge", "Of the VM's busiest element."),
    "vgc_faults_total": ("counter", "Faults of a kind, those that were cleared as well."),
    "vgc_faults_open": ("gauge", "Faults of a kind that nobody has cleared."),
    "vgc_pe_utilization_ratio": ("gauge", "Busy part of the element's time since its channel was opened."),
    "vgc_pe_blocks_total": ("counter", "Blocks that the element has run."),
    "vgc_pe_warps_total": ("counter", "Warps that the element has run."),
    "vgc_pe_launches_total": ("counter", "Launches that the element had a part in."),
    "vgc_pe_busy_seconds_total": ("counter", "Time in which the element ran blocks."),
    "vgc_pe_stall_seconds_total": ("counter", "Time in which the element waited inside of blocks."),
    "vgc_pe_counter_total": ("counter", "A kernel's own counter (vgc_count)."),
    "vgc_pe_gauge": ("gauge", "A kernel's own gauge (vgc_gauge)."),
    "vgc_pe_series_left_out": ("gauge", "Elements without series of their own, as there would be too many."),
    "vgc_host_instances": ("gauge", "Open function instances."),
    "vgc_control_cpu_ratio": ("gauge", "CPU time of the daemon's control system, of one CPU."),
    "vgc_control_memory_bytes": ("gauge", "Memory of the daemon's control system."),
    "vgc_control_channels": ("gauge", "Open channels of the host."),
    "vgc_control_records_per_second": ("gauge", "Records taken from the host's devices."),
    "vgc_control_records_lost_total": ("counter", "Records that found no room, counted."),
    "vgc_control_cost_ratio": ("gauge", "Part of the VM's elements' time that making records takes."),
}


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else '+'}Inf"


class Page:
    """Samples, grouped by series as the format wants it."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[str, str]] = {}

    def add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """One sample of a series of `METRICS`. What daemons say may be any text: it is escaped; of what they say twice
        the last counts, as a page must not have a series twice.
        """
        shown = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
        self._samples.setdefault(name, {})[shown] = _number(value)

    def text(self) -> str:
        lines = []
        for name, (kind, meaning) in METRICS.items():
            if name in self._samples:
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
                lines += [
                    f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"
                    for shown, value in self._samples[name].items()
                ]
        return "\n".join(lines) + "\n"
