"""``vgcctl functions``: registered functions with their work, and those of single processes."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.control_daemon import FakeDaemon
from tests.unit.test_vgcctl_centre import Cluster, with_centre
from tests.unit.vgcctl_rig import vgcctl, with_daemon


def test_registered_functions_are_shown_with_their_work(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        vm = daemon.world.vms["h1-vm0"]
        vm.extra = ["later"]
        kernel = daemon.world.kernel(vm)
        ran = await vgcctl("functions", "vm=h1-vm0", "--daemon", daemon.url)
        assert ran.code == 0
        head, kept, broken = (line.split() for line in ran.lines[:3])
        assert head == ["host", "vm", "function", "program", "state", "launches", "mean", "p99"]
        assert kept[:6] == ["h1", "h1-vm0", f"{kernel}(pointer,", "int32)", "1", "kept"]
        assert broken[:6] == ["h1", "h1-vm0", "later(pointer,", "int32)", "2", "broken"]
        assert "h1/h1-vm0: program 2 is broken: line 1: error" in ran.out + ran.err
        found = (await vgcctl("functions", "vm=h1-vm0", "--json", "--daemon", daemon.url)).json
        assert [program["program"] for program in found["programs"]] == [1, 2]
        assert {work["function"] for work in found["functions"]} == {kernel, "later"}

    with_daemon(tmp_path, test)


def test_functions_of_no_program_are_built_in_or_of_a_process(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        chosen = daemon.world.vms["h1-vm0"]
        daemon.world.programs = lambda vm: []  # type: ignore[method-assign]  # noqa: ARG005
        chosen.extra = ["blas.gemm_f32"]
        ran = await vgcctl("functions", "vm=h1-vm0", "--daemon", daemon.url)
        states = {line.split()[2]: line for line in ran.lines[1:]}
        assert "built in" in states["blas.gemm_f32"]
        assert "of a process" in states[daemon.world.kernel(chosen)]

    with_daemon(tmp_path, test)


def test_a_centre_shows_those_of_all_hosts(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        ran = await vgcctl("functions", "--json", "--centre", cluster.url)
        assert {program["host"] for program in ran.json["programs"]} == {"h1", "h2"}

    with_centre(tmp_path, test)
