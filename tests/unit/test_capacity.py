"""Sums of what VMs may use, compared with what the host and its GPUs have."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vhost_backend import cli
from vhost_backend.config.daemon import MIB, EngineConfig, QuotaConfig, VmConfig, parse, vm_uuid
from vhost_backend.daemon import capacity
from vhost_backend.daemon.capacity import Capacity, Share, excesses
from vhost_backend.daemon.gpus import Gpu
from vhost_backend.daemon.roll import VmStore

GIB = 1 << 30
HOST = Capacity(cores=frozenset(range(8)), memory_bytes=16 * GIB)
GPU = Gpu(1, "GPU-1", "NVIDIA H200", "sm_90", 132, 100 * GIB, 8, 8, 1 << 17)


def share(name: str = "a", pes: int | None = None, memory: int = MIB, gpu: Gpu | None = None, **settings: Any) -> Share:
    engine = EngineConfig("cpu" if gpu is None else "cuda")
    quota = QuotaConfig(pes=pes, memory_bytes=memory)
    vm = VmConfig(name, vm_uuid(name), region_bytes=MIB, engine=engine, quota=quota)
    return Share(replace(vm, **settings), gpu)


def texts(*shares: Share) -> list[str]:
    return [str(excess) for excess in excesses(shares, HOST)]


def test_what_the_host_has_fits() -> None:
    assert texts(share("a", 6, 8 * GIB - 2 * MIB), share("b", 2, 8 * GIB)) == []


def test_more_processing_elements_than_cores_are_named() -> None:
    (text,) = texts(share("a", 9))
    has = "the VM a may use 9 processing elements, and this host has 8 cores"
    assert text == f"{has}; allowed: quota.pes of 8 in all, or none, which shares them, or overcommit: true"
    (text,) = texts(share("a", 2), share("b", 7))
    assert text.startswith("the VMs b (7), a (2) together may use 9 processing elements, and this host has 8 cores;")


def test_vms_without_a_number_share_the_cores() -> None:
    assert texts(*(share(name) for name in "abcdefghij"), share("k", 8)) == []


def test_memory_of_quotas_and_regions_is_added() -> None:
    (text,) = texts(share("a", memory=8 * GIB), share("b", memory=8 * GIB))
    assert text.startswith(
        "the VMs a (8193 MiB), b (8193 MiB) together may use 16386 MiB of memory, and this host has 16384 MiB;"
    )
    (text,) = texts(share("a", memory=12 * GIB), share("b", memory=8 * GIB))
    assert text.startswith(
        "the VMs a (12.0 GiB), b (8.0 GiB) together may use 20.0 GiB of memory, and this host has 16.0"
    )
    assert texts(share("a", memory=8 * GIB), share("b", memory=8 * GIB - 2 * MIB)) == []


def test_names_of_many_vms_are_cut() -> None:
    (text,) = texts(*(share(f"v{number}", 1) for number in range(9)))
    assert "v5 (1), v6 (1), v7 (1) and 1 more together may" in text


def test_each_gpu_has_what_its_own_vms_may_use() -> None:
    other = replace(GPU, uuid="GPU-2", index=2)
    assert texts(share("a", 132, 99 * GIB, GPU), share("b", 132, 99 * GIB, other), share("c", 8)) == []
    elements, memory = texts(share("a", 100, 60 * GIB, GPU), share("b", 33, 60 * GIB, GPU))
    assert "GPU 1 (NVIDIA H200) has 132 multiprocessors; allowed: quota.pes of 132 in all" in elements
    assert "may use 120.0 GiB of memory, and GPU 1 (NVIDIA H200) has 100.0 GiB; allowed: quota.memory of" in memory


def test_vms_without_an_engine_count_their_region_only() -> None:
    on_nothing = share("a", 99, 99 * GIB, engine=EngineConfig("cuda"))
    assert texts(on_nothing) == []
    (text,) = texts(replace(on_nothing, vm=replace(on_nothing.vm, region_bytes=32 * GIB)))
    assert "may use 32.0 GiB of memory" in text


def test_vms_that_may_find_a_gpu_do_not_count_until_that_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    automatic = share("a", 99, engine=EngineConfig("auto"))
    node = tmp_path / "nvidiactl"
    monkeypatch.setattr(capacity, "_GPU_NODES", (node,))
    assert len(texts(automatic)) == 1
    assert texts(share("a", 99, engine=EngineConfig("auto", {"driver": "/opt/libcuda.so.1"}))) == []
    node.touch()
    assert texts(automatic) == []


def test_host_is_measured_as_far_as_this_process_may_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = Capacity.of_host()
    assert here.cores == os.sched_getaffinity(0)
    assert 0 < here.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(capacity, "_OWN_LIMITS", (limit, tmp_path / "none"))
    limit.write_text("max\n")
    assert Capacity.of_host().memory_bytes >= here.memory_bytes
    limit.write_text("1048576\n")
    assert Capacity.of_host().memory_bytes == MIB


@pytest.fixture
def small_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capacity, "of_host", classmethod(lambda _: Capacity(frozenset({0, 1}), GIB)))


@pytest.mark.usefixtures("small_host")
@pytest.mark.parametrize("command", [["check-config"], ["run", "--config"]])
def test_a_configuration_that_does_not_fit_is_refused(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "vgcd.yaml"
    file.write_text("vms: {a: {engine: cpu, quota: {pes: 4000, memory: 60T}}}\n")
    assert cli.main([*command, str(file)]) == 2
    elements, memory = capsys.readouterr().err.splitlines()
    assert elements.startswith("vgcd: the VM a may use 4000 processing elements, and this host has 2 cores;")
    assert memory.startswith("vgcd: the VM a may use 61440.1 GiB of memory, and this host has 1.0 GiB;")


@pytest.mark.usefixtures("small_host")
def test_overcommitment_is_shown_where_it_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vgcd.yaml"
    file.write_text("overcommit: true\nvms: {a: {engine: cpu, quota: {pes: 3}}}\n")
    assert cli.main(["check-config", str(file)]) == 0
    assert "overcommitted: the VM a may use 3 processing elements, and this host has 2 cores" in capsys.readouterr().out


@pytest.mark.usefixtures("small_host")
def test_one_vm_by_hand_must_fit_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--socket-path", str(tmp_path / "none" / "s"), "--engine", "cpu", "--pes", "99"]
    assert cli.main(arguments) == 2
    assert "may use 99 processing elements" in capsys.readouterr().err
    assert cli.main([*arguments, "--overcommit", "--sandbox", "best-effort"]) == 3  # further, to the socket
    assert "there is no folder" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL  # as it was: programs that are started inherit it


# ---- cores of a VM's own -------------------------------------------------------------------------


def with_cores(name: str, quota: str) -> Share:
    (vm,) = parse(f"vms: {{{name}: {{socket: /s/{name}, engine: cpu, quota: {{{quota}}}}}}}").vms
    return Share(vm)


def test_one_core_stays_for_all_others_whatever_is_allowed() -> None:
    assert texts(with_cores("a", "cores: own, pes: 4"), with_cores("b", "cores: 1-3")) == []
    assert texts(with_cores("a", "cores: own, pes: 5"), with_cores("b", "cores: 1-3")) == [
        (
            "the VMs a (5), b (3) are to have 8 cores for their own, and this host has 8, of which one stays for "
            "all others; allowed: 7 in all"
        )
    ]


def test_listed_cores_must_be_there_and_nobody_else_s() -> None:
    found = texts(with_cores("a", "cores: 2-3"), with_cores("b", "cores: '3,9'"))
    assert found == [
        "vms.b.quota.cores is 3,9, and vgcd may not use 9 here; allowed: of 0-7",
        "vms.b.quota.cores is 3,9, and 3 is for vms.a; allowed: cores that no other VM has for its own",
    ]


@pytest.mark.usefixtures("small_host")
def test_overcommitment_gives_no_core_to_two_vms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vgcd.yaml"
    file.write_text(
        "overcommit: true\nvms: {a: {engine: cpu, quota: {cores: 1}}, b: {engine: cpu, quota: {cores: 1}}}\n"
    )
    assert cli.main(["check-config", str(file)]) == 2
    assert "vms.b.quota.cores is 1, and 1 is for vms.a" in capsys.readouterr().err


# ---- VMs that were added without a file ----------------------------------------------------------


@pytest.mark.usefixtures("small_host")
def test_added_vms_count_when_a_configuration_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    file = tmp_path / "vgcd.yaml"
    file.write_text("vms: {a: {engine: cpu, quota: {pes: 1}}, c: {engine: cpu}}\n")
    store = VmStore(tmp_path)
    store.save({"b": {"socket": "/s/b", "engine": "cpu", "quota": {"pes": 1}}, "c": {"socket": "/s/old"}})
    assert cli.main(["check-config", str(file)]) == 0
    assert "beside them vgcd serves VMs that were added without a file: b\n" in capsys.readouterr().out
    store.save({"b": {"socket": "/s/b", "engine": "cpu", "quota": {"pes": 2}}})
    assert cli.main(["check-config", str(file)]) == 2
    assert "the VMs b (2), a (1) together may use 3 processing elements, and this host has 2" in capsys.readouterr().err
    store.file.write_text("{")
    assert cli.main(["check-config", str(file)]) == 0
    assert f"VMs that were added without a file do not count: {store.file} cannot be" in capsys.readouterr().out
