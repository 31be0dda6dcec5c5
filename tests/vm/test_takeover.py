"""A real guest computes, and reads its device's configuration, while the host's daemon is killed again and again."""

from __future__ import annotations

import shlex
from typing import Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

NAME: Final = "lasting"
KILLS: Final = 10
GUEST: Final = """
import os, time
import numpy as np
import guest_driver as vgc

SOURCE = '''
extern "C" __global__ void step(int n, int *sum, const int *data) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] += data[i];
}
'''
N = 10_000
numbers = np.arange(N, dtype=np.int32)
with vgc.Device() as dev:
    step = dev.compile(SOURCE)["step"]
    data, total = dev.to_device(numbers), dev.zeros(N, "int32")
    rounds, longest = 0, 0.0
    open("/tmp/computing", "w").close()
    while not os.path.exists("/tmp/enough"):
        began = time.monotonic()
        step[40, 256](N, total, data)
        longest = max(longest, time.monotonic() - began)
        rounds += 1
        assert dev.info().generation == 1, "another worker"
    assert (total.get() == numbers * np.int32(rounds)).all(), "a wrong sum"
    again = dev.compile(SOURCE.replace("step", "twice"))["twice"]
    again[40, 256](N, total, data)
    assert (total.get() == numbers * np.int32(rounds + 1)).all(), "a wrong sum"
    print("rounds", rounds, "longest", round(longest * 1000), "ms")
"""


def test_a_guest_that_computes_notices_nothing_of_the_daemons_deaths() -> None:
    settings = VmSettings(NAME, extra={"quota": {"pes": 2, "memory": "64M"}})
    with Vgcd(settings, kept=True) as vgcd, Guest(vgcd.device(NAME)) as guest:
        started = guest.start(f"python3 -c {shlex.quote(GUEST)}", timeout=HANGS_AFTER_S)
        guest.run("while [ ! -e /tmp/computing ]; do sleep 0.1; done")
        for _ in range(KILLS):
            vgcd.kill_daemon()
        guest.run("touch /tmp/enough")
        said = guest.result(started, "the guest's program", timeout=HANGS_AFTER_S).stdout.split()
        print(*said)  # noqa: T201  how long the longest launch took, for people
        assert (said[0], said[2]) == ("rounds", "longest")
        assert int(said[1]) > KILLS
