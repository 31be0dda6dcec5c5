"""A real guest computes in a loop while the host migrates its work to and fro, and notices nothing."""

from __future__ import annotations

import shlex

import pytest

from tests.fakes.control_caller import ControlCaller
from tests.limits import HANGS_AFTER_S
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

NAME = "moving"
MOVES = 4
GUEST = """
import os
import numpy as np
import guest_driver as vgc

SOURCE = '''
__device__ int calls;
extern "C" __global__ void step(int n, int *sum, const int *data) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) atomicAdd(&calls, 1);
    if (i < n) sum[i] += data[i];
}
extern "C" __global__ void count(int *out) { *out = calls; }
'''
N = 100_000
numbers = np.arange(N, dtype=np.int32)
with vgc.Device() as dev:
    program = dev.compile(SOURCE)
    step, count = program["step"], program["count"]
    data, total, out = dev.to_device(numbers), dev.zeros(N, "int32"), dev.zeros(1, "int32")
    rounds = 0
    open("/tmp/computing", "w").close()
    while not os.path.exists("/tmp/enough"):
        step[391, 256](N, total, data)
        rounds += 1
    count[1, 1](out)
    assert (total.get() == numbers * np.int32(rounds)).all(), "a wrong sum"
    assert out.get()[0] == rounds, (out.get()[0], rounds)
    print("rounds", rounds, "generation", dev.info().generation)
"""


def test_a_guest_that_computes_notices_nothing_of_migrations() -> None:
    settings = VmSettings(NAME, extra={"quota": {"pes": 2, "memory": "64M"}})
    with Vgcd(settings) as vgcd, Guest(vgcd.device(NAME)) as guest, ControlCaller(vgcd.control_socket) as control:
        started = guest.start(f"python3 -c {shlex.quote(GUEST)}", timeout=HANGS_AFTER_S)
        guest.run("while [ ! -e /tmp/computing ]; do sleep 0.1; done")
        moves = [control.migrate(NAME, pes=1 + turn % 2) for turn in range(MOVES)]
        guest.run("touch /tmp/enough")
        said = guest.result(started, "the guest's program", timeout=HANGS_AFTER_S).stdout.split()
        assert [move["text"] for move in moves if move["state"] != "done"] == []
        assert all(move["bytes"] > 0 for move in moves)
        assert (said[0], said[2:]) == ("rounds", ["generation", "1"])
        assert int(said[1]) > MOVES
