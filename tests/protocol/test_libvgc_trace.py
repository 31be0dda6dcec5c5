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
