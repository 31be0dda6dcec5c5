"""Text format 0.0.4 of Prometheus, and all metrics of the control centre with their help texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

from virtio_proto.control.figures import help_of

Kind = Literal["gauge", "counter"]

METRICS: Final[Mapping[str, tuple[Kind, str]]] = {
    "vgc_host_up": ("gauge", "1 if the host's daemon answers, 0 if it has not answered lately."),
    "vgc_host_start_time_seconds": ("gauge", "Start of the host's daemon, in seconds since 1970."),
    "vgc_host_memory_bytes": ("gauge", "Memory of the host that its daemon may use."),
    "vgc_host_memory_allotted_bytes": ("gauge", "Memory of VMs' regions and of the software GPU's VMs together."),
    "vgc_host_cgroups_version": ("gauge", "Version of the control groups that hold VMs to their limits; 0: none."),
    "vgc_centre_streams": ("gauge", "Streams that clients of the control centre have open."),
    "vgc_centre_stream_messages_dropped_total": (
        "counter",
        "Messages of streams that were dropped, as clients read too slowly.",
    ),
    "vgc_host_clock_skew_seconds": (
        "gauge",
        "Difference of the host's clock to the centre's, without what an answer's time may account for.",
    ),
    "vgc_control_loop_delay_seconds": (
        "gauge",
        "Longest time in the last minute for which something held the daemon's loop.",
    ),
    "vgc_control_link_pauses_total": (
        "counter",
        "Times at which messages or records of a VM's worker were read late, as they took more time than one VM may.",
    ),
    "vgc_centre_memory_bytes": ("gauge", "Resident memory of the control centre."),
    "vgc_recorder_failing": ("gauge", "1 while the recorder cannot write, for example because its disk is full."),
    "vgc_recorder_ended": ("gauge", "1 once the recorder has ended by an error: nothing is recorded until a restart."),
    "vgc_recorder_failures_total": ("counter", "Times at which the recorder could not write any more."),
    "vgc_recorder_lag_seconds": ("gauge", "Age of the oldest batch, event or command that is not in the store yet."),
    "vgc_recorder_queued_bytes": ("gauge", "Size of what waits in memory to be recorded."),
    "vgc_recorder_queue_limit_bytes": ("gauge", "Most bytes that may wait; what comes beyond that is left out."),
    "vgc_recorder_left_out_total": ("counter", "Batches, events and commands that were not recorded."),
    "vgc_recorder_disk_free_bytes": ("gauge", "Free space on the recording's disk, if it is on one of this machine."),
    "vgc_recorder_bytes": ("gauge", "Size of the recording."),
    "vgc_recorder_records": ("gauge", "Records in the recording."),
    "vgc_recorder_vm_records_total": (
        "counter",
        "Records that a VM has made, by outcome: kept; lost in a full channel; left out on the way to the recording.",
    ),
    "vgc_gpu_info": ("gauge", "Always 1; labels give the versions of the driver and the VBIOS."),
    "vgc_gpu_pes": ("gauge", "Processing elements of the GPU."),
    "vgc_gpu_pes_allotted": ("gauge", "Processing elements that the quotas of the GPU's VMs add up to."),
    "vgc_gpu_memory_allotted_bytes": ("gauge", "Memory that the quotas of the GPU's VMs add up to."),
    "vgc_gpu_vms": ("gauge", "VMs that may use the GPU."),
    "vgc_gpu_pes_used": ("gauge", help_of("vgc_gpu_pes_used")),
    "vgc_gpu_utilization_ratio": ("gauge", help_of("vgc_gpu_utilization_ratio")),
    "hw_gpu_utilization_ratio": ("gauge", "hw.gpu.utilization: fraction of time spent in a specific task."),
    "hw_gpu_memory_limit_bytes": ("gauge", "hw.gpu.memory.limit: size of the GPU memory."),
    "hw_gpu_memory_usage_bytes": ("gauge", "hw.gpu.memory.usage: GPU memory used by the VMs."),
    "hw_gpu_memory_utilization_ratio": ("gauge", "hw.gpu.memory.utilization: fraction of GPU memory used by the VMs."),
    "vgc_vm_ready": ("gauge", "1 if the VM's worker takes requests."),
    "vgc_vm_pes": ("gauge", "Processing elements that the VM's work may run on."),
    "vgc_vm_memory_used_bytes": ("gauge", "Device memory that the VM has allocated."),
    "vgc_vm_memory_quota_bytes": ("gauge", "Device memory that the VM may allocate."),
    "vgc_vm_pes_used": ("gauge", help_of("vgc_vm_pes_used")),
    "vgc_vm_memory_peak_bytes": ("gauge", "Most device memory that the VM has held since its worker's start."),
    "vgc_vm_limits_exceeded": ("gauge", "1 for each limit that was lowered below the VM's use."),
    "vgc_vm_limits_pending": ("gauge", "1 for each limit that was changed and does not hold yet."),
    "vgc_vm_allotment": ("gauge", "Number of the limits that the VM's guest is told; rises when they change."),
    "vgc_vm_allotment_acknowledged": ("gauge", "Number of the limits that the guest says it has taken; 0: none."),
    "vgc_vm_allotment_state": ("gauge", "Always 1; a label says how the guest stands to its limits."),
    "vgc_vm_weight": ("gauge", "Share of the host's processors beside other VMs that have work."),
    "vgc_vm_requests_total": ("counter", "Requests of the VM that were done."),
    "vgc_vm_requests_failed_total": ("counter", "Requests of the VM that failed."),
    "vgc_vm_request_failures_total": ("counter", "Requests of the VM that failed, by the status that they got."),
    "vgc_vm_requests_in_flight": ("gauge", "Requests of the VM that are being worked on."),
    "vgc_vm_latency_seconds_bucket": (
        "counter",
        "Launches, graphs and queued copies of the VM that took no longer than le; for histogram_quantile().",
    ),
    "vgc_vm_compiling": ("gauge", "Programs of the VM that compile, or wait for a compiler."),
    "vgc_vm_compilations_total": ("counter", "Programs that the VM asked for, by their end: compiled, cached, failed."),
    "vgc_vm_compile_seconds_total": ("counter", "Time from request to answer of these programs, waiting included."),
    "vgc_vm_cpu_seconds_total": ("counter", "CPU time of the VM's workers on the host."),
    "vgc_vm_stray_cpu_seconds_total": ("counter", "Part of that CPU time that no request of the VM explains."),
    "vgc_vm_gpu_seconds_total": ("counter", "GPU time that the VM was charged, as its workers tell."),
    "vgc_vm_gpu_held_seconds_total": ("counter", "Time for which launches of the VM were held: not its turn."),
    "vgc_vm_gpu_shared_seconds_total": ("counter", "GPU time of the VM while other VMs of the GPU had work."),
    "vgc_vm_gpu_shared_of_seconds_total": ("counter", "GPU time of all VMs of the GPU in the same time."),
    "vgc_vm_channels": ("gauge", help_of("vgc_vm_channels")),
    "vgc_vm_worker_generation": ("gauge", "How often the VM's worker was started."),
    "vgc_vm_utilization_ratio": ("gauge", help_of("vgc_vm_utilization_ratio")),
    "vgc_vm_pe_utilization_min_ratio": ("gauge", "Utilisation of the VM's least busy PE."),
    "vgc_vm_pe_utilization_median_ratio": ("gauge", "Median utilisation of the VM's PEs."),
    "vgc_vm_pe_utilization_max_ratio": ("gauge", "Utilisation of the VM's busiest PE."),
    "vgc_faults_total": (
        "counter",
        "Faults of a kind since the VM is served, including those that were cleared, or that the list has no room for any more.",
    ),
    "vgc_faults_open": ("gauge", "Faults of a kind that are not cleared."),
    "vgc_pe_utilization_ratio": ("gauge", help_of("vgc_pe_utilization_ratio")),
    "vgc_pe_blocks_total": ("counter", "Blocks that the PE has run."),
    "vgc_pe_warps_total": ("counter", "Warps that the PE has run."),
    "vgc_pe_launches_total": ("counter", "Launches of which the PE has run blocks."),
    "vgc_pe_busy_seconds_total": ("counter", help_of("vgc_pe_busy_seconds_total")),
    "vgc_pe_stall_seconds_total": ("counter", help_of("vgc_pe_stall_seconds_total")),
    "vgc_pe_counter_total": ("counter", "A kernel's own counter (vgc_count)."),
    "vgc_pe_gauge": ("gauge", "A kernel's own gauge (vgc_gauge)."),
    "vgc_pe_series_left_out": ("gauge", "PEs beyond max_pe_series, which have no series of their own."),
    "vgc_host_instances": ("gauge", "Open instances of a function."),
    "vgc_control_cpu_ratio": ("gauge", "Part of one CPU that the daemon's control system uses."),
    "vgc_control_memory_bytes": ("gauge", "Memory of the daemon's control system."),
    "vgc_control_channels": ("gauge", help_of("vgc_control_channels")),
    "vgc_control_records_per_second": ("gauge", "Records per second taken from the host's devices."),
    "vgc_control_records_lost_total": ("counter", "Records dropped because a channel was full."),
    "vgc_control_cost_ratio": ("gauge", "Part of the VM's PEs' time that making records takes."),
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
    """Samples of a scrape, grouped by metric as the format demands."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[str, str]] = {}

    def add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Adds a sample of a metric in `METRICS`. Labels may be any text of a daemon, and are escaped. A second sample of
        a series replaces the first: a page must not have a series twice.
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
