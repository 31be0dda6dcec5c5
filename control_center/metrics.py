"""Prometheus metrics of all hosts: ``/metrics``.

Labels are those of dcgm-exporter (``gpu``, ``UUID``, ``pci_bus_id``, ``device``, ``modelName``, ``Hostname``) with ``vm``
and ``pe``; utilisation and memory of GPUs also have OpenTelemetry's names (``hw.gpu.utilization``, ...). A scrape shows the
present: a VM that is gone has no series any more, and a host that does not answer has only ``vgc_host_up 0``. Every VM
has minimum, median and maximum over its processing elements (PEs); a PE has series of its own while a perf or load
channel is open on it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import median_low
from typing import Final

from aiohttp import web

from control_center.centre import Centre
from control_center.exposition import Page
from control_center.host import Host
from control_center.scope import Scope
from control_center.usage import memory_bytes
from virtio_proto.control import latency
from virtio_proto.control.api import FaultInfo, GpuInfo, InstanceInfo, PeStat, RecorderStatus, SelfInfo, VmInfo
from virtio_proto.control.verbs.channels import Ls
from virtio_proto.control.verbs.faults import FaultList, Faults, FaultTotal
from virtio_proto.control.verbs.hosts import Self, Stat
from virtio_proto.control.verbs.status import HostStatus, Status

ASK_S: Final = 2.0
"""Time for hosts' answers during a scrape; answers that come later are left out."""
COUNTING: Final = ("perf", "load")
"""Functions whose channels count for the series of PEs."""
MAX_OWN_FIGURES: Final = 64
"""Most counters, and most gauges, of a kernel's own for which one PE has series."""
LATENCY_BUCKETS: Final = range(7, latency.NUM_CLASSES, 8)
"""Last latency class of each bucket: the first ends at 2 us, each other one at four times the one before."""
_FULL: Final = 255
"""Load of a PE that is always busy."""
OUTCOMES: Final = ("kept", "lost", "left_out")
"""Ends of a VM's records in the recorder's account."""
_Labels = dict[str, str]


def handler(centre: Centre) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Makes the handler of ``/metrics``; a token for some VMs sees only their series."""

    async def handle(request: web.Request) -> web.StreamResponse:
        scope = centre.access.caller(request).scope
        text = await page(centre, scope)
        response = web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        response.enable_compression()
        return response

    return handle


async def page(centre: Centre, scope: Scope) -> str:
    """Text of ``/metrics`` for a caller with `scope`."""
    out = Page()
    out.add("vgc_centre_streams", len(centre.hub), {})
    out.add("vgc_centre_stream_messages_dropped_total", centre.hub.dropped, {})
    out.add("vgc_centre_memory_bytes", memory_bytes(), {})
    if centre.recorder is not None and scope.is_all:
        _add_recorder(out, centre.recorder.status())
    for account in [] if centre.recorder is None else centre.recorder.accounts():
        if scope.sees(account["host"], account["vm"]):
            labels = {"Hostname": account["host"], "vm": account["vm"]}
            for outcome in OUTCOMES:
                out.add("vgc_recorder_vm_records_total", account[outcome], {**labels, "outcome": outcome})
    hosts = centre.cluster.visible(scope)
    for host in hosts:
        out.add("vgc_host_up", int(host.state == "up"), {"Hostname": host.name})
    up = [host for host in hosts if host.state == "up"]
    for host in up:
        if host.clock_skew_ns is not None:
            out.add("vgc_host_clock_skew_seconds", host.clock_skew_ns / 1e9, {"Hostname": host.name})
        _add_known(out, host, scope)
    series = _Series(centre.max_pe_series)
    for host, asked in (await _ask(centre, up, scope)).items():
        _add_asked(out, host, scope, asked, series)
    out.add("vgc_pe_series_left_out", series.left_out, {})
    return out.text()


# ---- what is known of a host ---------------------------------------------------------------------


def _gpu_labels(host: Host, gpu: GpuInfo) -> _Labels:
    return {
        "gpu": gpu["gpu"],
        "UUID": gpu["uuid"],
        "pci_bus_id": gpu.get("pci_bus_id", ""),
        "device": f"nvidia{gpu['gpu']}" if gpu["kind"] == "cuda" else gpu["gpu"],
        "modelName": gpu["name"],
        "Hostname": host.name,
    }


def _vm_labels(host: Host, vm: VmInfo) -> _Labels:
    gpu = next((gpu for gpu in host.gpus if gpu["gpu"] == vm["gpu"]), None)
    place = {"gpu": vm["gpu"], "Hostname": host.name} if gpu is None else _gpu_labels(host, gpu)
    return {**place, "vm": vm["vm"]}


def _add_recorder(out: Page, status: RecorderStatus) -> None:
    failure, free = status["failure"], status["free_bytes"]
    out.add("vgc_recorder_failing", int(failure is not None and failure["to_ns"] is None), {})
    out.add("vgc_recorder_ended", int(status["ended"] is not None), {})
    out.add("vgc_recorder_failures_total", status["failures"], {})
    out.add("vgc_recorder_lag_seconds", status["lag_ns"] / 1e9, {})
    out.add("vgc_recorder_queued_bytes", status["queued_bytes"], {})
    out.add("vgc_recorder_queue_limit_bytes", status["queue_bytes"], {})
    out.add("vgc_recorder_left_out_total", status["left_out"], {})
    if free is not None:
        out.add("vgc_recorder_disk_free_bytes", free, {})
    out.add("vgc_recorder_bytes", status["bytes"], {})
    out.add("vgc_recorder_records", status["records"], {})


def _add_known(out: Page, host: Host, scope: Scope) -> None:
    vms = [vm for name, vm in host.vms.items() if scope.sees(host.name, name)]
    if scope.is_all:
        for gpu in host.gpus:
            _add_gpu(out, host, gpu)
    for vm in vms:
        _add_vm(out, host, vm)


def _add_gpu(out: Page, host: Host, gpu: GpuInfo) -> None:
    labels = _gpu_labels(host, gpu)
    used = sum(vm["memory_used_bytes"] for vm in host.vms.values() if vm["gpu"] == gpu["gpu"])
    out.add(
        "vgc_gpu_info", 1, {**labels, "driver": gpu.get("driver_version", ""), "vbios": gpu.get("vbios_version", "")}
    )
    out.add("vgc_gpu_pes", gpu["pes"], labels)
    hardware = {"hw_id": gpu["uuid"], "hw_name": f"{host.name}/{gpu['gpu']}", "hw_model": gpu["name"], **labels}
    out.add("hw_gpu_memory_limit_bytes", gpu["memory_bytes"], hardware)
    out.add("hw_gpu_memory_usage_bytes", used, hardware)
    if gpu["memory_bytes"]:
        out.add("hw_gpu_memory_utilization_ratio", used / gpu["memory_bytes"], hardware)
    busy = None if host.load is None else host.load["gpus"].get(gpu["gpu"])
    if busy is not None:
        out.add("vgc_gpu_utilization_ratio", busy, labels)
        out.add("vgc_gpu_pes_used", host.load["gpu_pes_used"].get(gpu["gpu"], 0.0), labels)  # type: ignore[index]  # else no load of it
        out.add("hw_gpu_utilization_ratio", busy, hardware)


def _add_vm(out: Page, host: Host, vm: VmInfo) -> None:
    labels = _vm_labels(host, vm)
    out.add("vgc_vm_ready", int(vm["state"] == "ready"), labels)
    out.add("vgc_vm_pes", vm["pes"] if vm["confined_to"] is None else len(vm["confined_to"]), labels)
    out.add("vgc_vm_memory_used_bytes", vm["memory_used_bytes"], labels)
    out.add("vgc_vm_memory_quota_bytes", vm["memory_quota_bytes"], labels)
    out.add("vgc_vm_requests_total", vm["requests_done"], labels)
    out.add("vgc_vm_requests_failed_total", vm["requests_failed"], labels)
    out.add("vgc_vm_requests_in_flight", vm["in_flight"], labels)
    for status, count in _some(vm.get("failures", {})):
        out.add("vgc_vm_request_failures_total", count, {**labels, "status": status})
    _add_latency(out, labels, vm.get("latency"))
    _add_compilations(out, labels, vm)
    _add_limits(out, labels, vm)
    if "cpu_ns" in vm:
        out.add("vgc_vm_cpu_seconds_total", vm["cpu_ns"] / 1e9, labels)
    if "stray_cpu_ns" in vm:
        out.add("vgc_vm_stray_cpu_seconds_total", vm["stray_cpu_ns"] / 1e9, labels)
    for name in ("gpu", "gpu_held", "gpu_shared", "gpu_shared_of"):
        if f"{name}_ns" in vm:
            out.add(f"vgc_vm_{name}_seconds_total", vm[f"{name}_ns"] / 1e9, labels)  # type: ignore[literal-required]
    out.add("vgc_vm_channels", vm["channels"], labels)
    out.add("vgc_vm_worker_generation", vm["generation"], labels)
    if host.load is None or vm["vm"] not in host.load["vms"]:
        return
    out.add("vgc_vm_utilization_ratio", host.load["vms"][vm["vm"]], labels)
    out.add("vgc_vm_pes_used", host.load["vm_pes_used"].get(vm["vm"], 0.0), labels)
    if busy := host.load["pes"].get(vm["vm"]):
        out.add("vgc_vm_pe_utilization_min_ratio", min(busy) / _FULL, labels)
        out.add("vgc_vm_pe_utilization_median_ratio", median_low(busy) / _FULL, labels)
        out.add("vgc_vm_pe_utilization_max_ratio", max(busy) / _FULL, labels)


def _add_compilations(out: Page, labels: _Labels, vm: VmInfo) -> None:
    if "compiling" in vm:
        out.add("vgc_vm_compiling", vm["compiling"], labels)
    for result, count in _some(vm.get("compilations", {})):
        out.add("vgc_vm_compilations_total", count, {**labels, "result": result})
    if "compile_ns" in vm:
        out.add("vgc_vm_compile_seconds_total", vm["compile_ns"] / 1e9, labels)


def _add_limits(out: Page, labels: _Labels, vm: VmInfo) -> None:
    if "memory_peak_bytes" in vm:
        out.add("vgc_vm_memory_peak_bytes", vm["memory_peak_bytes"], labels)
    if "weight" in vm:
        out.add("vgc_vm_weight", vm["weight"], labels)
    if "allotment" in vm:
        out.add("vgc_vm_allotment", vm["allotment"], labels)
        out.add("vgc_vm_allotment_acknowledged", vm.get("acknowledged") or 0, labels)
    if "allotment_state" in vm:
        out.add("vgc_vm_allotment_state", 1, {**labels, "state": vm["allotment_state"]})
    for limit in vm.get("pending", ()):
        out.add("vgc_vm_limits_pending", 1, {**labels, "limit": limit})
    for limit in vm.get("exceeded", ()):
        out.add("vgc_vm_limits_exceeded", 1, {**labels, "limit": limit})


def _add_latency(out: Page, labels: _Labels, counts: Sequence[int] | None) -> None:
    if counts is None:
        return
    for last in LATENCY_BUCKETS:
        below = {**labels, "le": repr(latency.upper_ns(last) / 1e9)}
        out.add("vgc_vm_latency_seconds_bucket", sum(counts[: last + 1]), below)
    out.add("vgc_vm_latency_seconds_bucket", sum(counts), {**labels, "le": "+Inf"})


# ---- what is asked of a host during the scrape ---------------------------------------------------


class _Asked:
    """Answers of one host during a scrape."""

    def __init__(self) -> None:
        self.faults: list[FaultInfo] = []
        self.totals: list[FaultTotal] | None = None
        """None: the host's daemon does not say."""
        self.stats: list[PeStat] = []
        self.instances: list[InstanceInfo] = []
        self.own: SelfInfo | None = None
        self.status: HostStatus | None = None


class _Series:
    """Number of PEs that may still get series of their own."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.left_out = 0

    def take(self) -> bool:
        if self.left <= 0:
            self.left_out += 1
            return False
        self.left -= 1
        return True


def _some(figures: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    """First `MAX_OWN_FIGURES` figures: a kernel may make up any number."""
    return islice(figures.items(), MAX_OWN_FIGURES)


def is_counting(host: Host) -> bool:
    """True if an open instance counts for the series of PEs."""
    return any(set(known.fn or ()) & set(COUNTING) for known in host.instances.values())


async def _ask(centre: Centre, hosts: list[Host], scope: Scope) -> dict[Host, _Asked]:
    found = {host: _Asked() for host in hosts}
    whole = hosts if scope.is_all else []
    faults, stats, listings, own, statuses = await asyncio.gather(
        centre.cluster.gather(dict.fromkeys(hosts, Faults.Request(cleared=True)), ASK_S),
        centre.cluster.gather(dict.fromkeys(filter(is_counting, hosts), Stat.Request()), ASK_S),
        centre.cluster.gather(dict.fromkeys(whole, Ls.Request(totals=True)), ASK_S),
        centre.cluster.gather(dict.fromkeys(whole, Self.Request()), ASK_S),
        centre.cluster.gather(dict.fromkeys(whole, Status.Request()), ASK_S),
    )
    for host, asked in found.items():
        listed: FaultList = faults.answers.get(host.name, {"faults": []})
        asked.faults, asked.totals = listed["faults"], listed.get("totals")
        asked.stats = stats.answers.get(host.name, {"pes": []})["pes"]
        asked.instances = listings.answers.get(host.name, {"instances": []})["instances"]
        asked.own = own.answers.get(host.name)
        asked.status = statuses.answers.get(host.name)
    return found


def _add_asked(out: Page, host: Host, scope: Scope, asked: _Asked, series: _Series) -> None:
    _add_faults(out, host, scope, asked)
    for stat in asked.stats:
        vm = host.vms.get(stat["vm"])
        if vm is not None and scope.sees(host.name, stat["vm"]) and series.take():
            _add_element(out, {**_vm_labels(host, vm), "pe": str(stat["pe"])}, stat)
    for function, count in _instances(asked.instances):
        out.add("vgc_host_instances", count, {"Hostname": host.name, "fn": function})
    if asked.own is not None:
        _add_cost(out, host, asked.own)
    if asked.status is not None:
        _add_status(out, host, asked.status)


def _add_faults(out: Page, host: Host, scope: Scope, asked: _Asked) -> None:
    totals, active = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for total in asked.faults if asked.totals is None else asked.totals:
        totals[total["vm"], total["kind"]] += total["count"]
    for fault in asked.faults:
        active[fault["vm"], fault["kind"]] += not fault["cleared"]
    for (vm, kind), count in totals.items():
        if vm in host.vms and scope.sees(host.name, vm):
            labels = {**_vm_labels(host, host.vms[vm]), "kind": kind}
            out.add("vgc_faults_total", count, labels)
            out.add("vgc_faults_open", active[vm, kind], labels)


def _add_element(out: Page, labels: _Labels, stat: PeStat) -> None:
    out.add("vgc_pe_utilization_ratio", stat["busy_share"], labels)
    out.add("vgc_pe_blocks_total", stat["blocks"], labels)
    out.add("vgc_pe_warps_total", stat["warps"], labels)
    out.add("vgc_pe_launches_total", stat["launches"], labels)
    out.add("vgc_pe_busy_seconds_total", stat["busy_ns"] / 1e9, labels)
    out.add("vgc_pe_stall_seconds_total", stat["stall_ns"] / 1e9, labels)
    for name, value in _some(stat["counters"]):
        out.add("vgc_pe_counter_total", value, {**labels, "counter": name})
    for name, number in _some(stat["gauges"]):
        out.add("vgc_pe_gauge", number, {**labels, "gauge": name})


def _instances(infos: list[InstanceInfo]) -> Iterator[tuple[str, int]]:
    return iter(sorted(Counter(info["function"] for info in infos).items()))


def _add_status(out: Page, host: Host, status: HostStatus) -> None:
    labels = {"Hostname": host.name}
    out.add("vgc_host_start_time_seconds", status["started_ns"] / 1e9, labels)
    out.add("vgc_host_memory_bytes", status["memory_bytes"], labels)
    out.add("vgc_host_memory_allotted_bytes", status["memory_allotted_bytes"], labels)
    out.add("vgc_host_cgroups_version", status["cgroups"], labels)
    known = {gpu["gpu"]: _gpu_labels(host, gpu) for gpu in host.gpus}
    for gpu in status["gpus"]:
        if gpu["gpu"] in known:
            out.add("vgc_gpu_pes_allotted", gpu["pes_allotted"], known[gpu["gpu"]])
            out.add("vgc_gpu_memory_allotted_bytes", gpu["memory_allotted_bytes"], known[gpu["gpu"]])
            out.add("vgc_gpu_vms", gpu["vms"], known[gpu["gpu"]])


def _add_cost(out: Page, host: Host, own: SelfInfo) -> None:
    labels = {"Hostname": host.name}
    out.add("vgc_control_cpu_ratio", own["cpu_percent"] / 100, labels)
    out.add("vgc_control_memory_bytes", own["memory_bytes"], labels)
    out.add("vgc_control_channels", own["channels"], labels)
    out.add("vgc_control_records_per_second", own["records_per_s"], labels)
    out.add("vgc_control_records_lost_total", own["lost"], labels)
    out.add("vgc_control_loop_delay_seconds", own["loop_delay_ns"] / 1e9, labels)
    for link in own["link_pauses"]:
        if link["vm"] in host.vms:
            place = {**_vm_labels(host, host.vms[link["vm"]]), "link": link["link"]}
            out.add("vgc_control_link_pauses_total", link["pauses"], place)
    for vm, cost in own["cost_percent"].items():
        if vm in host.vms:
            out.add("vgc_control_cost_ratio", cost / 100, _vm_labels(host, host.vms[vm]))
