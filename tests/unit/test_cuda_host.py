"""Parts of the host that the worker of a GPU sees, and exceptions in its sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vhost_backend.config.daemon import EngineConfig, VmConfig, vm_uuid
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.engines.base import HostView
from vhost_backend.engines.cuda import host
from vhost_backend.engines.cuda.engine import CudaEngine
from vhost_backend.errors import HostError
from vhost_backend.sandbox.policy import HOSTILE, worker_policy
from vhost_backend.sandbox.seccomp import Action
from vhost_backend.sandbox.syscalls import X86_64

UUIDS = ("GPU-8f6d2a1e-0c3b-4d5e-9f70-1a2b3c4d5e6f", "GPU-00000000-0c3b-4d5e-9f70-1a2b3c4d5e6f")
INFORMATION = """Model: \t\t NVIDIA H200
IRQ:   \t\t 233
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.a5.00.01
Bus Location: \t 0000:{bus:02x}:00.0
Device Minor: \t {minor}
GPU Excluded:\t No
"""
CONTROL = ["nvidia-caps", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl"]


@pytest.fixture
def nodes(tmp_path: Path) -> Callable[[object], list[str]]:
    """Returns the names of nodes shown for a device, on a host with two; the second has the smaller minor number."""
    dev, proc = tmp_path / "dev", tmp_path / "proc"
    (dev / "nvidia-caps").mkdir(parents=True)
    for name in (*CONTROL[1:], "nvidia0", "nvidia1", "nvidia-modeset", "nvidia-nvswitchctl", "null", "sda"):
        (dev / name).touch()
    for index, uuid in enumerate(UUIDS):
        folder = proc / "driver" / "nvidia" / "gpus" / f"0000:{index:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(uuid=uuid, bus=index, minor=1 - index))

    def shown(device: object) -> list[str]:
        view = host.view({} if device is None else {"device": str(device)}, dev, proc)
        return [path.name for path in view.devices]

    return shown


@pytest.mark.parametrize(("uuid", "node"), [(UUIDS[0], "nvidia1"), (UUIDS[1].upper(), "nvidia0")])
def test_worker_sees_the_node_of_its_own_gpu(nodes: Callable[[object], list[str]], uuid: str, node: str) -> None:
    assert sorted(nodes(uuid)) == sorted([*CONTROL, node])


@pytest.mark.parametrize("device", [None, "MIG-8f6d2a1e-0c3b-4d5e-9f70-1a2b3c4d5e6f", 0])
def test_worker_sees_all_gpus_if_its_own_cannot_be_determined(
    nodes: Callable[[object], list[str]], device: object
) -> None:
    assert sorted(nodes(device)) == sorted([*CONTROL, "nvidia0", "nvidia1"])


def test_worker_sees_the_drivers_folder(tmp_path: Path) -> None:
    """Both the configured path and the target of its links."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "libcuda.so.580").touch()
    link = tmp_path / "named"
    link.mkdir()
    (link / "libcuda.so.1").symlink_to(real / "libcuda.so.580")
    assert {real, link} <= set(host.view({"driver": str(link / "libcuda.so.1")}).paths)


def test_only_existing_paths_are_shown() -> None:
    view = host.view({"driver": "/nowhere/libcuda.so.1"})
    assert all(path.exists() for path in view.paths)
    assert view.proc


def test_files_that_the_driver_opened_stay_open(tmp_path: Path) -> None:
    before = host.open_fds()
    with (tmp_path / "file").open("w") as file:
        needs = host.needs(before)
        assert needs.kept_fds == (file.fileno(),)
    assert host.open_fds() == before


def test_descriptors_are_found_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    found = host.open_fds()
    monkeypatch.setattr(host, "_FDS", Path("/nowhere"))
    assert host.open_fds() == found


def test_permitted_driver_calls_are_known_and_not_hostile() -> None:
    calls = host.needs(frozenset()).system_calls
    assert HOSTILE.isdisjoint(calls)
    assert set(calls) <= X86_64.keys()
    assert worker_policy(os.getpid(), calls).rules["ioctl"] is Action.ALLOW


def shown_to_worker(engine: EngineConfig) -> tuple[str, ...]:
    """The launcher's arguments for devices and proc that a worker sees."""
    config = VmConfig("a", vm_uuid("a"), engine=engine)
    return tuple(word for word in sandboxed_worker(config, 3) if word.startswith(("--device", "--proc")))


def test_workers_on_gpus_alone_are_shown_devices_and_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    view = HostView(devices=(Path("/dev/zero"),), proc=True)
    monkeypatch.setattr(CudaEngine, "view", staticmethod(lambda _options: view))
    assert shown_to_worker(EngineConfig("cuda")) == ("--device=/dev/zero=/dev/zero", "--proc")
    assert shown_to_worker(EngineConfig("cpu")) == shown_to_worker(EngineConfig("null")) == ()


def test_driver_in_a_secret_folder_is_refused() -> None:
    engine = EngineConfig("cuda", {"driver": "/run/libcuda.so.1"})
    with pytest.raises(HostError, match="/run must not be shown to a sandboxed process"):
        sandboxed_worker(VmConfig("a", vm_uuid("a"), engine=engine), 3)


def test_worker_sees_the_folders_of_the_libraries(tmp_path: Path) -> None:
    """By the names in the options and by their real paths, each once."""
    real = tmp_path / "toolkit" / "lib"
    real.mkdir(parents=True)
    (tmp_path / "lib64").symlink_to(real)
    options = {"cublas": str(tmp_path / "lib64/libcublas.so.13"), "cufft": str(tmp_path / "lib64/libcufft.so.12")}
    for name in ("libcublas.so.13", "libcufft.so.12"):
        (real / name).touch()
    paths = [path for path in host.view(options).paths if tmp_path in path.parents]
    assert paths == [tmp_path / "lib64", real]
