"""Processes on one fake GPU: its start, and time slices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.fakes.cuda_driver import with_settings

ROOT = Path(__file__).resolve().parents[2]

PROCESS = """
import sys
from pathlib import Path
from tests.fakes.cuda_driver import FakeDriver
from tests.unit.fake_cuda_rig import Rig
rig = Rig(FakeDriver(Path(sys.argv[1])))
rig.start()
def say(*words):
    print(*words, flush=True)
    sys.stdin.readline()
"""


class Process:
    """A process that uses the GPU; it prints a line at a time, and then waits."""

    def __init__(self, library: Path, script: str) -> None:
        command = [sys.executable, "-c", PROCESS + script, str(library)]
        environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


STARTS = "say(rig.fake.number('starts'))\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return with_settings(tmp_path, f"start_ms 10\nslice_ms 2\nlog {tmp_path / 'log'}\n")


def test_the_gpu_starts_for_the_first_process_only(library: Path) -> None:
    with Process(library, STARTS) as first:
        assert first.said() == "1"
        with Process(library, STARTS) as second:
            assert second.said() == "0"


def test_the_gpu_shuts_down_with_the_last_process(library: Path) -> None:
    """Also for processes that are killed."""
    for _ in range(2):
        with Process(library, STARTS) as first, Process(library, STARTS) as second:
            assert sorted((first.said(), second.said())) == ["0", "1"]


def test_the_gpu_stays_up_while_a_process_has_it_open(library: Path) -> None:
    with Process(library, STARTS) as holder:
        assert holder.said() == "1"
        for _ in range(2):
            with Process(library, STARTS) as other:
                assert other.said() == "0"


COMPUTES = """
import struct
slow, address, stream = rig.kernel("slow"), rig.alloc(4), rig.stream()
say("ready")
for _ in range(10):
    rig.launch(slow, struct.pack("<Q", address), struct.pack("<I", 1), stream=stream)
rig.call("cuStreamSynchronize", stream)
say(rig.fake.number("turns") > 0)
"""
HANGS = """
hang, stream = rig.kernel("hang"), rig.stream()
rig.launch(hang, stream=stream)
rig.fake.await_hanging()
say("hangs")
before = rig.fake.number("turns")
while rig.fake.number("turns") < before + 3:
    pass
say("goes on")
rig.fake.release()
rig.call("cuStreamSynchronize", stream)
say("done")
"""


def turns(log: Path) -> list[tuple[str, str]]:
    """Beginnings and ends of time slices, in order."""
    lines = (line.split() for line in log.read_text().splitlines() if line.startswith("turn of "))
    return [(process, what) for _, _, process, what in lines]


def test_processes_do_not_run_at_the_same_moment(library: Path) -> None:
    with Process(library, COMPUTES) as first, Process(library, COMPUTES) as second:
        both = (first, second)
        assert [one.said() for one in both] == ["ready"] * 2
        for one in both:
            one.go_on()
        assert [one.said() for one in both] == ["True"] * 2
        found = turns(library.parent / "log")
    while found and found[-1][1] == "begins":
        found.pop()  # it runs nothing; the end of its slice may not be written yet
    assert {process for process, _ in found} == {str(one.process.pid) for one in both}
    assert found[::2] == [(process, "begins") for process, _ in found[1::2]]
    assert found[1::2] == [(process, "ends") for process, _ in found[::2]]


def test_a_kernel_that_hangs_leaves_other_processes_their_turns(library: Path) -> None:
    with Process(library, HANGS) as hanging, Process(library, COMPUTES) as computing:
        assert (hanging.said(), computing.said()) == ("hangs", "ready")
        computing.go_on()
        assert computing.said() == "True"
        hanging.go_on()
        assert hanging.said() == "goes on"
        hanging.go_on()
        assert hanging.said() == "done"


def test_a_process_that_is_killed_in_its_turn_does_not_keep_it(library: Path) -> None:
    with Process(library, COMPUTES) as computing:
        assert computing.said() == "ready"
        with Process(library, HANGS) as hanging:
            assert hanging.said() == "hangs"
        computing.go_on()
        assert computing.said() == "True"
