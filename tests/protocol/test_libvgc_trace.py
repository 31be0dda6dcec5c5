"""Files that libvgc writes of a program that `vgc trace` runs, without a toolkit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from guest_driver.trace import lines
from tests.protocol.guest_host import GuestHost, guest_host

PROGRAM: Final = """
import os
import numpy as np
from guest_driver.device import Device

def compute(count):
    with Device() as device:
        program = device.compile('extern "C" __global__ void add_one(int *x) { x[threadIdx.x]++; }')
        x = device.to_device(np.zeros(64, np.int32))
        for _ in range(count):
            program["add_one"].launch(1, 64, x)
        assert (x.get() == count).all()

compute(300)
child = os.fork()
if child == 0:
    compute(5)
    os._exit(0)  # no destructor runs
assert os.waitpid(child, 0)[1] == 0
compute(1)
"""
REQUESTS: Final = 20_000
"""Two files' parts, as libvgc maps them one after the other."""

TAKES_DESCRIPTORS: Final = f"""
import os, sys
from contextlib import suppress
from guest_driver.device import Device

def target(fd):
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{{fd}}")
    return ""

with Device() as device:
    device.usage()
    own = os.open(sys.argv[1], os.O_RDWR)
    for fd in list(map(int, os.listdir("/proc/self/fd"))):
        if target(fd).endswith(".trace"):
            os.dup2(own, fd)
    for _ in range({REQUESTS}):
        device.usage()
    if os.fork() == 0:
        print(target(own), flush=True)
        os._exit(0)
    os.wait()
"""

LIMITED: Final = """
import resource, signal, sys
from guest_driver.device import Device

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, other programs do not
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
with Device() as device:
    for _ in range(int(sys.argv[2])):
        device.usage()
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def test_each_process_writes_its_requests(host: GuestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_TRACE", str(tmp_path))
    done = host.python("-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    trace = lines.read(tmp_path)
    launches = Counter(one.pid for one in trace.requests if (one.kind, one.name) == ("LAUNCH", "add_one"))
    assert sorted(launches.values()) == [5, 301]
    assert trace.lost == 0
    assert all(one.start_ns <= one.end_ns for one in trace.entries())
    assert all(one.queued_ns + one.exec_ns <= one.end_ns - one.start_ns for one in trace.requests if one.result == 0)


def test_a_folder_that_is_missing_changes_nothing(
    host: GuestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGC_TRACE", str(tmp_path / "none"))
    done = host.python("-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "none").exists()


def test_a_program_s_own_files_stay_as_they_are(
    host: GuestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that closes descriptors which it does not know gets their numbers for files of its own."""
    own = tmp_path / "own"
    own.write_text("precious")
    monkeypatch.setenv("VGC_TRACE", str(tmp_path))
    done = host.python("-c", TAKES_DESCRIPTORS, own)
    assert (done.returncode, done.stdout) == (0, f"{own}\n"), done.stderr
    assert own.read_text() == "precious"
    trace = lines.read(tmp_path)
    assert trace.lost == 0
    assert Counter(one.pid for one in trace.requests).most_common(1)[0][1] > REQUESTS


def test_a_limit_of_files_does_not_end_the_program(
    host: GuestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGC_TRACE", str(tmp_path))
    done = host.python("-c", LIMITED, "100_000", "1")
    assert done.returncode == 0, done.stderr
    trace = lines.read(tmp_path)
    assert (trace.requests, trace.unwritten) == ([], 1)


def test_lines_without_room_are_counted(host: GuestHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_TRACE", str(tmp_path))
    done = host.python("-c", LIMITED, "1_500_000", str(REQUESTS))
    assert done.returncode == 0, done.stderr
    trace = lines.read(tmp_path)
    assert trace.lost == 0
    assert trace.unwritten > 0  # how many depends on the length of the times, and on how often the program slept
    assert len(trace.requests) + len(trace.sleeps) + trace.unwritten > REQUESTS
