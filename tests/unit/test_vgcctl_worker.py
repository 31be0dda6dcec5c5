"""``vgcctl worker``: quiesce, resume, reset."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.control_daemon import FakeDaemon
from tests.unit.vgcctl_rig import vgcctl, with_daemon


def test_workers_are_quiesced_resumed_and_reset(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        vm = daemon.world.vms["h1-vm0"]
        held = await vgcctl("worker", "quiesce", "h1-vm0", "--daemon", daemon.url)
        assert (held.code, vm.frozen, "vgcctl worker resume" in held.err) == (0, True, True)
        assert "ready, quiesced" in (await vgcctl("ls", "vms", "--daemon", daemon.url)).out
        assert (await vgcctl("worker", "resume", "h1/h1-vm0", "--daemon", daemon.url)).code == 0
        assert (await vgcctl("worker", "reset", "h1-vm0", "--daemon", daemon.url)).code == 0
        assert (vm.frozen, vm.generation) == (False, 2)
        assert "quiesced" not in (await vgcctl("ls", "vms", "--daemon", daemon.url)).out

    with_daemon(tmp_path, test)


def test_vm_whose_programs_have_no_hooks_is_listed_with_the_reason(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].unseen = "no ptxas for nvrtc of CUDA 13.0"
        listed = await vgcctl("ls", "vms", "--daemon", daemon.url)
        assert listed.out.count("ready, no hooks") == 1
        assert "h1-vm0: no hooks, its kernels are not seen: no ptxas for nvrtc of CUDA 13.0" in listed.err

    with_daemon(tmp_path, test)


def test_cpu_time_that_no_request_explains_is_listed(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].stray_cpu_ns = 1_500_000_000
        daemon.world.vms["h1-vm1"].stray_cpu_ns = 1_000_000
        listed = (await vgcctl("ls", "vms", "--daemon", daemon.url)).out
        assert listed.count(", stray 1.5 s") == 1
        assert listed.count("stray") == 1

    with_daemon(tmp_path, test)
