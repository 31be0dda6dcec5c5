"""Guests' programs go on by themselves while their worker is killed at each step of a request, under load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.processes import launchers
from tests.protocol.guest_host import guest_host, guest_variables
from tests.waiting import until
from tests.worker_death import GUEST, check_each_ended_once, kill_all


def both_on(folder: Path) -> None:
    """Waits until both programs have done a round more."""
    marks = [folder / "done-0", folder / "done-1"]
    for mark in marks:
        mark.unlink(missing_ok=True)
    until(lambda: all(mark.exists() for mark in marks))


def test_programs_go_on_wherever_their_worker_dies(tmp_path: Path) -> None:
    with guest_host(tmp_path) as host:
        words = [sys.executable, "-c", GUEST]
        programs = [
            subprocess.Popen(
                [*words, str(own), str(tmp_path)],
                cwd=REPOSITORY,
                env=os.environ | guest_variables((host,)),
                pass_fds=host.link.fds,
                stdout=subprocess.PIPE,
                text=True,
            )
            for own in (0, 1)
        ]
        try:
            kills = kill_all(lambda: launchers(os.getpid()), lambda: both_on(tmp_path), rounds=1)
            (tmp_path / "enough").touch()
            for program in programs:
                said = program.communicate(timeout=HANGS_AFTER_S)[0]
                rounds, _losses, recoveries, generation = map(int, said.split())
                assert rounds > 1
                assert 1 <= recoveries <= kills
                assert generation == kills + 1
            check_each_ended_once(os.getpid())
        finally:
            for program in programs:
                program.kill()
                program.communicate()
