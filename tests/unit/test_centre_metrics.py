"""``/metrics``: the labels that dashboards know, and series of what exists now only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from control_center import metrics
from control_center.exposition import METRICS, Page
from control_center.scope import Scope
from tests.unit.centre_rig import Rig, rig_of, run
from tests.unit.recorder_rig import block, push, recorder, sqlite_url
from virtio_proto.control import latency

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "virtio-gpu-compute.json"
CONTROL = DASHBOARD.parents[1] / "control.md"
_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[A-Za-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')
FACTS: Final = {
    "memory_peak_bytes": 12 << 30,
    "weight": 300,
    "allotment": 4,
    "acknowledged": 3,
    "allotment_state": "pending",
    "pending": ["memory_bytes", "contexts"],
    "exceeded": ["queue_depth"],
    "failures": {"out_of_memory": 5, "fault": 1},
    "compilations": {"compiled": 3, "cached": 2, "failed": 1},
    "compile_ns": 2_500_000_000,
}
"""Facts of a VM that not all daemons and VMs have."""
Samples = list[tuple[str, dict[str, str], float]]


async def scraped(rig: Rig) -> Samples:
    """All samples of ``/metrics``, each checked against the format."""
    async with rig.client.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    found, announced = [], set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in announced, "a series is announced once"
            announced.add(name)
        elif not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] in announced
            found.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found


def of(samples: Samples, name: str, **labels: str) -> list[float]:
    return [value for found, has, value in samples if found == name and labels.items() <= has.items()]


def test_gpus_and_vms_have_dcgm_exporters_labels(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            samples = await scraped(rig)
            labels = next(has for name, has, _ in samples if name == "vgc_vm_utilization_ratio")
            assert set(labels) == {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "vm"}
            assert (labels["device"], labels["pci_bus_id"]) == ("nvidia0", "00000000:10:00.0")
            assert labels["UUID"].startswith("GPU-")
            for gpu in ("0", "1"):
                assert of(samples, "vgc_gpu_pes_used", gpu=gpu) == [
                    pytest.approx(sum(of(samples, "vgc_vm_pes_used", gpu=gpu)))
                ]
            busy = rig.daemon.world.busy(rig.daemon.world.vms["h1-vm0"])
            assert of(samples, "vgc_vm_pe_utilization_max_ratio", vm="h1-vm0") == [int(busy.max()) / 255]
            assert of(samples, "vgc_vm_pe_utilization_min_ratio", vm="h1-vm0") == [int(busy.min()) / 255]

    run(test())


def test_cpu_time_of_workers_is_in_seconds(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.world.vms["h1-vm0"].stray_cpu_ns = 1_500_000_000
            await rig.host()._learn()
            samples = await scraped(rig)
            assert of(samples, "vgc_vm_stray_cpu_seconds_total", vm="h1-vm0") == [1.5]
            assert len(of(samples, "vgc_vm_cpu_seconds_total", vm="h1-vm0")) == 1

    run(test())


def test_gpu_time_and_what_it_is_a_share_of_are_in_seconds(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.world.vms["h1-vm1"].gpu_time = None
            await rig.host()._learn()
            samples = await scraped(rig)
            names = [f"vgc_vm_gpu_{what}seconds_total" for what in ("", "held_", "shared_", "shared_of_")]
            assert [of(samples, name, vm="h1-vm0") for name in names] == [[8], [3], [2], [8]]
            assert [of(samples, name, vm="h1-vm1") for name in names] == [[], [], [], []], "it has no GPU"

    run(test())


def test_latencies_are_cumulative_buckets(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.world.vms["h1-vm0"].compiling = 2
            counts = [0] * latency.NUM_CLASSES
            counts[3], counts[8], counts[-1] = 5, 6, 7
            told = rig.daemon.host.answer("topology", {}, None)
            told["vms"][0]["latency"] = counts
            del told["vms"][1]["latency"], told["vms"][1]["compiling"]
            rig.daemon.misbehave.answers["topology"] = told
            await rig.host()._learn()
            samples = await scraped(rig)
            name = "vgc_vm_latency_seconds_bucket"
            assert of(samples, name, vm="h1-vm0") == [5, *[11] * (len(metrics.LATENCY_BUCKETS) - 1), 18]
            ends = [has["le"] for found, has, _ in samples if found == name]
            assert ends[:2] == ["2.048e-06", "8.192e-06"]
            assert (ends[-1], of(samples, name, vm="h1-vm1")) == ("+Inf", [])
            assert of(samples, "vgc_vm_compiling") == [2]

    run(test())


def test_limits_of_vms_and_their_guests_stand_to_them_are_series(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.world.vms["h1-vm0"].more = FACTS
            rig.daemon.world.vms["h1-vm1"].more = {"allotment": 1, "acknowledged": None}
            await rig.host()._learn()
            samples = await scraped(rig)
            one = {
                name: of(samples, f"vgc_vm_{name}", vm="h1-vm0")
                for name in ("memory_peak_bytes", "weight", "allotment", "allotment_acknowledged")
            }
            assert one == {
                "memory_peak_bytes": [12 << 30],
                "weight": [300],
                "allotment": [4],
                "allotment_acknowledged": [3],
            }
            assert of(samples, "vgc_vm_allotment_state", vm="h1-vm0", state="pending") == [1]
            assert of(samples, "vgc_vm_limits_pending", vm="h1-vm0", limit="memory_bytes") == [1]
            assert len(of(samples, "vgc_vm_limits_pending")) == 2
            assert of(samples, "vgc_vm_limits_exceeded", limit="queue_depth") == [1]
            assert of(samples, "vgc_vm_request_failures_total", status="out_of_memory") == [5]
            assert of(samples, "vgc_vm_compilations_total", result="cached") == [2]
            assert of(samples, "vgc_vm_compile_seconds_total") == [2.5]
            assert of(samples, "vgc_vm_allotment_acknowledged", vm="h1-vm1") == [0]
            busy = of(samples, "vgc_vm_utilization_ratio", vm="h1-vm0")
            assert of(samples, "vgc_vm_pes_used", vm="h1-vm0") == [4 * busy[0]]

    run(test())


def test_allotments_of_hosts_are_series_for_callers_that_see_all_vms(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            samples = await scraped(rig)
            assert of(samples, "vgc_gpu_pes_allotted", gpu="0") == [4]
            assert of(samples, "vgc_gpu_memory_allotted_bytes", device="nvidia0") == [16 << 30]
            assert of(samples, "vgc_gpu_vms") == [1, 1]
            assert of(samples, "vgc_host_memory_bytes", Hostname="h1") == [64 << 30]
            assert of(samples, "vgc_host_cgroups_version") == [2]
            assert of(samples, "vgc_host_start_time_seconds")[0] > 0
            text = await metrics.page(rig.centre, Scope(vms=frozenset({"h1-vm0"})))
            assert "vgc_host_memory_bytes" not in text
            assert "vgc_gpu_pes_allotted" not in text
            assert "vgc_vm_pes" in text

    run(test())


def test_series_have_opentelemetrys_names(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            samples = await scraped(rig)
            limit = of(samples, "hw_gpu_memory_limit_bytes", gpu="0")
            used = of(samples, "hw_gpu_memory_usage_bytes", gpu="0")
            assert of(samples, "hw_gpu_memory_utilization_ratio", gpu="0") == [used[0] / limit[0]]
            assert of(samples, "hw_gpu_utilization_ratio", gpu="0") == of(samples, "vgc_gpu_utilization_ratio", gpu="0")

    run(test())


def test_elements_have_series_only_while_a_channel_is_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            assert of(await scraped(rig), "vgc_pe_blocks_total") == []
            await rig.post("/channels", {"selector": "fn=perf,vm=h1-vm1,pe=0-1"})
            await rig.settle()
            samples = await scraped(rig)
            assert {has["pe"] for name, has, _ in samples if name == "vgc_pe_blocks_total"} == {"0", "1"}
            assert len(of(samples, "vgc_pe_gauge", vm="h1-vm1", gauge="residual")) == 2
            await rig.ask("DELETE", "/channels/h1/1")
            await rig.settle()
            assert of(await scraped(rig), "vgc_pe_blocks_total") == []

    run(test())


def test_number_of_series_per_element_is_bounded(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, max_pe_series=3) as rig:
            await rig.post("/channels", {"selector": "fn=load"})
            await rig.settle()
            samples = await scraped(rig)
            assert len(of(samples, "vgc_pe_utilization_ratio")) == 3
            assert of(samples, "vgc_pe_series_left_out") == [5.0]

    run(test())


def test_faults_are_counted_that_are_not_listed_any_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.fault("h1-vm1")
            assert of(await scraped(rig), "vgc_faults_total", vm="h1-vm1", kind="kernel") == [1.0]  # an older daemon's
            rig.daemon.host.fault_totals = [{"vm": "h1-vm1", "kind": "kernel", "count": 600}]
            samples = await scraped(rig)
            assert of(samples, "vgc_faults_total", vm="h1-vm1", kind="kernel") == [600.0]
            assert of(samples, "vgc_faults_open", vm="h1-vm1", kind="kernel") == [1.0]

    run(test())


def test_a_removed_vm_has_no_series(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            rig.daemon.fault("h1-vm1")
            assert of(await scraped(rig), "vgc_faults_open", vm="h1-vm1", kind="kernel") == [1.0]
            del rig.daemon.world.vms["h1-vm1"]
            for _ in range(5):
                await rig.poll()
            gone = [name for name, has, _ in await scraped(rig) if has.get("vm") == "h1-vm1"]
            assert gone == []

    run(test())


def test_a_stale_host_has_only_the_series_that_it_is_down(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.clock.seconds = 10
            await rig.host("h2").poll()
            rig.host("h1").look()
            samples = await scraped(rig)
            assert of(samples, "vgc_host_up", Hostname="h1") == [0.0]
            assert of(samples, "vgc_host_up", Hostname="h2") == [1.0]
            assert [name for name, has, _ in samples if has.get("Hostname") == "h1"] == ["vgc_host_up"]

    run(test())


def test_a_host_with_wrong_answers_lacks_only_its_own_series(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.misbehave.answers["self"] = {"nonsense": 1}
            rig.daemon.misbehave.answers["faults"] = None
            samples = await scraped(rig)
            assert of(samples, "vgc_control_channels", Hostname="h1") == []
            assert of(samples, "vgc_control_channels", Hostname="h2") == [0.0]
            assert of(samples, "vgc_gpu_pes", Hostname="h1", gpu="0") == [4.0]

    run(test())


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_any_name_of_a_vm_keeps_to_the_format(name: str) -> None:
    page = Page()
    page.add("vgc_vm_ready", 1, {"vm": name})
    (sample,) = [line for line in page.text().splitlines() if not line.startswith("#")]
    match = _SAMPLE.fullmatch(sample)
    assert match is not None


def _queries(dashboard: Any) -> list[str]:
    variables = [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    return variables + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_the_dashboard_queries_existing_series_and_labels(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    queries = _queries(dashboard)
    assert len(queries) > 20
    health = CONTROL.read_text().partition("## Health of the control system")[2].partition("\n## ")[0]
    told_of = {
        name for row in health.splitlines() if row.startswith("|") for name in re.findall(r"`(vgc_[a-z_]+)`", row)
    }
    assert len(told_of) > 10
    assert [name for name in sorted(told_of) if not any(re.search(rf"\b{name}\b", query) for query in queries)] == []

    async def test() -> None:
        async with recorder(sqlite_url(tmp_path)) as made, rig_of(tmp_path, recorder=made) as rig:
            await rig.post("/channels", {"selector": "fn=perf"})
            made.record_batch(push(block(0, 1, 0, begin=True), vm="h1-vm0"), "h1")
            await made.flush()
            rig.daemon.fault("h1-vm0")
            rig.daemon.world.vms["h1-vm0"].more = FACTS
            rig.daemon.host.link_pauses = [{"vm": "h1-vm0", "link": "records", "pauses": 1, "last_ns": 1}]
            await rig.host()._learn()
            await rig.settle()
            text = await metrics.page(rig.centre, Scope())
            labels: dict[str, set[str]] = {}
            for line in text.splitlines():
                if (match := _SAMPLE.fullmatch(line)) is not None:
                    labels.setdefault(match[1], set()).update(name for name, _ in _LABEL.findall(match[2] or ""))
            assert set(labels) == set(METRICS), "every series that is described is there"
            for query in queries:
                names = re.findall(r"\b(?:vgc|hw)_[a-z_]+", query)
                assert names, query
                for name in names:
                    used = set(re.findall(rf"{name}\{{([^}}]*)\}}", query)) or {""}
                    asked = {label for part in used for label in re.findall(r"([A-Za-z_]+)=~?\"", part)}
                    assert asked <= labels[name], query
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                    (name, *_) = re.findall(r"\b(?:vgc|hw)_[a-z_]+", target["expr"])
                    assert shown <= labels[name], target

    run(test())
