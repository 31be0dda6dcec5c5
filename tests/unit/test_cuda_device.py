"""The CUDA driver is found and started, or the reason is reported; GPUs are found by each of their names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.cuda_driver import FakeDriver
from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_rig import fake_driver
from vhost_backend.engines.cuda import device
from vhost_backend.engines.cuda.driver import CudaError, Driver, inaccessible_device_nodes, start
from vhost_backend.errors import EngineError

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

UUIDS = [f"GPU-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "abc"]
MIG = "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # so that monkeypatch restores it
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with fake_driver() as fake:
        yield fake


def started(fake: FakeDriver, *settings: str, visible: str | None = None) -> Driver:
    fake.set(*settings)
    return start(str(fake.path), visible)


def three() -> tuple[str, ...]:
    """Settings of the fake driver for three GPUs."""
    return ("devices 3", *(f"{index}.uuid {uuid}" for index, uuid in enumerate(UUIDS)))


# ---- the driver --------------------------------------------------------------------------------------


def test_the_file_and_the_version_of_the_driver_are_known(fake: FakeDriver) -> None:
    driver = started(fake, "driver_version 12080")
    assert (driver.library, driver.version()) == (str(fake.path), (12, 8))


def test_devices_are_counted_as_nvidia_smi_does(fake: FakeDriver) -> None:
    """GPUs are in PCI order, and lazy loading is off."""
    started(fake)
    assert (os.environ["CUDA_DEVICE_ORDER"], os.environ["CUDA_MODULE_LOADING"]) == ("PCI_BUS_ID", "EAGER")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (34, r"CUDA_ERROR_STUB_LIBRARY \(34\), .*LD_LIBRARY_PATH"),
        (100, r"cuInit: CUDA_ERROR_NO_DEVICE \(100\), .*nvidia-smi -L"),
        (802, "fabricmanager"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH.*reboot"),
        (804, "forward-compatibility"),
        (999, "CUDA_ERROR_UNKNOWN.*dmesg"),
        (4242, "4242"),
    ],
)
def test_the_error_of_a_driver_that_does_not_start_gives_advice(fake: FakeDriver, result: int, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        started(fake, f"init_result {result}")


def test_the_error_of_a_driver_that_does_not_start_names_closed_files(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vhost_backend.engines.cuda.driver.inaccessible_device_nodes", lambda: "no permission: /dev/nvidiactl"
    )
    with pytest.raises(EngineError, match=r"CUDA_ERROR_UNKNOWN.*; no permission: /dev/nvidiactl"):
        started(fake, "init_result 999")


def test_a_driver_that_is_too_old_is_refused(fake: FakeDriver) -> None:
    with pytest.raises(EngineError, match=r"knows CUDA 12.2; at least 12.4 is needed: install driver 550"):
        started(fake, "driver_version 12020")


def test_errors_have_the_name_and_the_number_of_cuda(fake: FakeDriver) -> None:
    driver = started(fake)
    fake.inject("cuDeviceGetCount", 719)
    with pytest.raises(CudaError, match=r"cuDeviceGetCount: CUDA_ERROR_LAUNCH_FAILED \(719\), ") as caught:
        driver.call("cuDeviceGetCount")
    assert caught.value.code == 719


def test_a_function_that_a_driver_lacks_is_named() -> None:
    """Runs in a process of its own, since bindings look up each function once."""
    script = """
from tests.fakes.cuda_driver import FakeDriver
from vhost_backend.engines.cuda.driver import start
from vhost_backend.errors import EngineError
fake = FakeDriver()
fake.hide("cuGreenCtxCreate")
try:
    start(str(fake.path)).call("cuGreenCtxCreate", 0, 0, 1)
except EngineError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S
    )
    assert "cuGreenCtxCreate is missing from the driver" in said.stdout


def test_missing_bindings_are_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(EngineError, match=r"pip install 'virtio-gpu-compute\[cuda\]'"):
        start()


@pytest.mark.parametrize(
    ("library", "words"),
    [("/nowhere/libcuda.so.1", "driver /nowhere/libcuda.so.1: .*No such file"), ("libm.so.6", "not a libcuda.so.1")],
)
def test_a_file_that_is_no_driver_is_refused(library: str, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        start(library)


def test_device_nodes_without_permission_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).symlink_to("/dev/null")
    (tmp_path / "nvidia-caps").mkdir()
    assert not inaccessible_device_nodes(str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, _mode: path.name != "nvidia0")
    assert inaccessible_device_nodes(str(tmp_path)).startswith(f"no permission to read and write {tmp_path}/nvidia0:")


# ---- GPUs --------------------------------------------------------------------------------------------


def test_a_device_is_described(fake: FakeDriver) -> None:
    driver = started(fake, f"uuid {UUIDS[0]}", "name NVIDIA H200", "capability 9.0", "sms 132", "memory 4294967296")
    assert device.find(driver, None) == device.Device(
        index=0,
        uuid=UUIDS[0],
        name="NVIDIA H200",
        arch="sm_90",
        num_pes=132,
        memory_bytes=4 << 30,
        pe_granularity=8,
        min_pes=8,
        max_shared_bytes=227 << 10,
        max_threads_per_pe=2048,
    )


@pytest.mark.parametrize(("capability", "least", "step"), [("7.5", 2, 2), ("8.6", 4, 2), ("9.0", 8, 8), ("12.0", 8, 8)])
def test_partition_sizes_are_known_for_drivers_that_do_not_report_them(
    fake: FakeDriver, capability: str, least: int, step: int
) -> None:
    """Before CUDA 13 the resource has no fields for them."""
    driver = started(fake, f"capability {capability}", "granularity 0", "min_partition 0")
    found = device.find(driver, "0")
    assert (found.min_pes, found.pe_granularity) == (least, step)


def test_a_device_without_partitions_is_given_whole(fake: FakeDriver) -> None:
    driver = started(fake, "sms 14")
    fake.inject("cuDeviceGetDevResource", 801)
    found = device.find(driver, None)
    assert (found.min_pes, found.pe_granularity) == (14, 14)


@pytest.mark.parametrize("wanted", ["1", UUIDS[1], UUIDS[1].upper(), "GPU-bbb"])
def test_a_gpu_is_found_by_each_of_its_names(fake: FakeDriver, wanted: str) -> None:
    assert device.find(started(fake, *three()), wanted).uuid == UUIDS[1]


def test_the_first_gpu_is_the_default(fake: FakeDriver) -> None:
    assert device.find(started(fake, *three()), None).index == 0


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("3", rf"no GPUs fit device '3'; there are: 0 \({UUIDS[0]}, Fake H200\); 1 .*; 2 "),
        ("GPU-d", "no GPUs fit"),
        ("GPU-", "3 GPUs fit"),
        ("first", "no GPUs fit device 'first'"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(fake: FakeDriver, wanted: str, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        device.find(started(fake, *three()), wanted)


def test_a_worker_with_a_uuid_sees_no_other_gpu(fake: FakeDriver) -> None:
    driver = started(fake, *three(), visible=device.visible_name(UUIDS[2]))
    assert [found.uuid for found in device.devices(driver)[0]] == [UUIDS[2]]
    assert device.find(driver, UUIDS[2]).index == 0


def test_an_unknown_uuid_is_named(fake: FakeDriver) -> None:
    with pytest.raises(EngineError, match=f"there is no device {UUIDS[2]}; nvidia-smi -L"):
        started(fake, f"uuid {UUIDS[0]}", visible=UUIDS[2])


def test_a_mig_instance_can_be_used_as_a_device(fake: FakeDriver) -> None:
    """An instance is visible only if it is named before the driver starts."""
    settings = ("devices 2", f"1.mig {MIG}", "1.name NVIDIA H200 MIG 1g.18gb", f"1.uuid {MIG[4:]}", "1.sms 16")
    assert device.visible_name(MIG) == MIG
    driver = started(fake, *settings, visible=MIG)
    found = device.find(driver, MIG)
    assert (found.uuid, found.index, found.num_pes) == (MIG, 0, 16)


@pytest.mark.parametrize("wanted", [None, "1", "GPU-abc"])
def test_names_other_than_a_uuid_hide_no_gpus(wanted: str | None) -> None:
    assert device.visible_name(wanted) is None


def test_a_device_in_prohibited_mode_is_left_out(fake: FakeDriver) -> None:
    driver = started(fake, "devices 2", "1.attribute.20 2")
    usable, problems = device.devices(driver)
    assert [found.index for found in usable] == [0]
    assert problems == ["GPU 1: its compute mode is Prohibited: nvidia-smi -c DEFAULT allows programs on it"]


def test_gpu_without_memory_pools_cannot_be_used(fake: FakeDriver) -> None:
    """Memory pools enforce the VM's quota; virtual GPUs without unified memory have no pools."""
    driver = started(fake, "devices 2", "0.attribute.115 0")
    usable, problems = device.devices(driver)
    assert [found.index for found in usable] == [1]
    assert len(problems) == 1
    assert problems[0].startswith("GPU 0: it has no memory pools here")
