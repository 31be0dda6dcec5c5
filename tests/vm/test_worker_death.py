"""A real guest's programs go on by themselves while their worker is killed at each step of a request, under load."""

from __future__ import annotations

import shlex
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tests.worker_death import DEATHS, GUEST, check_each_ended_once, kill_all

pytestmark = pytest.mark.vm

NAME: Final = "surviving"
FOLDER: Final = "/tmp/deaths"
PROGRAM: Final = """
mkdir -p {folder}
python3 -c {program} {own} {folder} || {{ code=$?; touch {folder}/failed; exit $code; }}
"""
ROUND_MORE: Final = f"""
mkdir -p {FOLDER} && cd {FOLDER} && rm -f done-0 done-1
until [ -e done-0 ] && [ -e done-1 ]; do [ ! -e failed ] || exit 1; sleep 0.1; done
"""
"""Ends when both programs have done a round more; with 1 if one of them has failed."""


class Programs:
    """The two programs of a guest, which use the device at once."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._commands = [PROGRAM.format(program=shlex.quote(GUEST), own=own, folder=FOLDER) for own in range(2)]
        self._started = [guest.start(each, timeout=HANGS_AFTER_S) for each in self._commands]

    def go_on(self) -> None:
        """Waits until both have done a round more.

        :raise CommandError: one has failed, with the text of its error.
        """
        if self._guest.run(ROUND_MORE, check=False).exit != 0:
            self.end()

    def end(self) -> list[str]:
        """Ends both, and returns what they have said.

        :raise CommandError: one has failed.
        """
        self._guest.run(f"touch {FOLDER}/enough")
        both = zip(self._started, self._commands, strict=True)
        return [self._guest.result(each, command, timeout=HANGS_AFTER_S).stdout for each, command in both]


def test_a_guests_programs_go_on_wherever_their_worker_dies() -> None:
    settings = VmSettings(NAME, extra={"quota": {"pes": 2, "memory": "64M"}})
    with Vgcd(settings) as vgcd, Guest(vgcd.device(NAME)) as guest:
        programs = Programs(guest)
        kills = kill_all(vgcd.worker_pids, programs.go_on, rounds=1)
        assert kills == len(DEATHS)
        for said in programs.end():
            print(*said.split())  # noqa: T201  rounds, losses, recoveries and generation, for people
            rounds, _losses, recoveries, generation = map(int, said.split())
            assert rounds > 1
            assert 1 <= recoveries <= kills
            assert generation == kills + 1
        check_each_ended_once(vgcd.process.pid)
