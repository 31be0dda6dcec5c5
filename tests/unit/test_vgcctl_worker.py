"""vgcctl worker: held, let go on, replaced."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.control_daemon import FakeDaemon
from tests.unit.vgcctl_rig import vgcctl, with_daemon


def test_workers_are_held_let_go_and_replaced(tmp_path: Path) -> None:
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
