"""The driver in a real guest: PCI, UIO interrupts, several processes at once."""

from __future__ import annotations

import os
import select
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.processes import descendants
from tests.vm.c_programs import put_program
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings
from tools.common import REPOSITORY

pytestmark = pytest.mark.vm

EXAMPLES = REPOSITORY / "examples"


@contextmanager
def guest_with_device(name: str = "driver") -> Iterator[tuple[Guest, Vgcd]]:
    with Vgcd(VmSettings(name)) as vgcd, Guest(vgcd.device(name)) as guest:
        yield guest, vgcd


def python(guest: Guest, script: str, *, opens: bool = True) -> str:
    """Runs a Python script in the guest with the device open as ``dev``; returns its output."""
    opening = "dev = vgc.Device(spin_s=1e-9)\n" if opens else ""
    program = "import os, signal, sys, time\nimport numpy as np\nimport guest_driver as vgc\n" + opening + script
    return guest.run(f"python3 -c {shlex.quote(program)}").stdout.strip()


SLEEPERS = """
def work():
    with vgc.Device(spin_s=1e-9) as dev:
        for _ in range(200):
            dev.nop()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""
"""Script of processes that sleep for every answer: an interrupt wakes all, and each must take its own answers only."""

KILLED_HOLDER = """
victim = os.fork()
if victim == 0:
    held = vgc.Device(spin_s=1e-9)
    memory = held.alloc(1 << 20)
    os.write(ready_out, b"x")
    signal.pause()
os.read(ready_in, 1)
with vgc.Device(spin_s=1e-9) as dev:
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    for _ in range(100):
        dev.nop()
    with vgc.Device() as third:
        usage = third.usage()
        print(usage.num_contexts, usage.memory_used_bytes)
"""
"""Script of a process that survives: closing a /dev/uioN stops the device, and survivors restart it."""


def test_driver_brings_the_device_up_and_computes() -> None:
    with guest_with_device() as (guest, _):
        info = guest.run("vgc info").stdout
        assert "(cpu), ready, generation 1" in info
        assert "interrupts" in info
        assert "no interrupts" not in info
        doctor = guest.run("vgc doctor").stdout
        assert "[ !! ]" not in doctor
        assert "right" in guest.run("python3 examples/matmul.py --size 64").stdout


def test_calls_by_name_take_the_faster_side(tmp_path: Path) -> None:
    with guest_with_device() as (guest, _):
        put_program(guest, EXAMPLES / "call_by_name.c", tmp_path / "call_by_name", "/root/call_by_name")
        for command, function in (
            ("/root/call_by_name", "smooth"),
            ("python3 examples/call_by_name.py", "distances"),
        ):
            output = guest.run(command).stdout
            assert output.count(": right\n") == len(output.splitlines()) >= 5
            told = guest.run(f"vgc explain {function}").stdout
            assert "times as fast" in told, told
        assert guest.run("VGC_SIDE=cpu /root/call_by_name").stdout.count(" 0 calls on the device") == 8


def test_built_in_functions_compute_without_a_source(tmp_path: Path) -> None:
    with guest_with_device() as (guest, _):
        put_program(guest, EXAMPLES / "product.c", tmp_path / "product", "/root/product")
        assert guest.run("/root/product").stdout.count("right") == 4
        assert guest.run("python3 examples/spectrum.py").stdout == "440 Hz, 1250 Hz: right\n"
        guest.run("python3 -c 'import numpy; numpy.save(\"a.npy\", numpy.arange(6.0).reshape(2, 3))'")
        guest.run("vgc call blas.gemm --in a.npy --in a.npy --set transpose_b=true --out c.npy")
        shown = guest.run("python3 -c 'import numpy; print(numpy.load(\"c.npy\").tolist())'").stdout
        assert shown == "[[5.0, 14.0], [14.0, 50.0]]\n"
        assert "blas.gemm" in guest.run("vgc functions").stdout


def test_kernels_that_frameworks_compiled_elsewhere_compute() -> None:
    with guest_with_device() as (guest, _):
        for example, printed in (
            ("matmul_triton", "(300 x 153) @ (153 x 305): right\n"),
            ("mandelbrot_numba", "300 x 200 points: right\n"),
            ("layers_tinygrad", "32 samples, 2 layers: right\n"),
        ):
            assert guest.run(f"python3 examples/ptx/{example}.py run").stdout == printed


SCALE = r"""
extern "C" __global__ void scale(int n, float by, const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = by * in[i];
}
"""
CALL = """
data, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
dev.call("scale", grid=1, block=8, args=[8, 3, vgc.In(data), vgc.Out(out)])
print(*out)
"""
"""Script of a process that calls a registered function, in and out buffers in one chain."""
SCALED = "0.0 3.0 6.0 9.0 12.0 15.0 18.0 21.0"


def test_a_function_that_is_registered_from_the_shell_outlasts_the_guest() -> None:
    with guest_with_device() as (guest, _):
        guest.put_bytes(SCALE.encode(), "/root/scale.cu")
        assert guest.run("vgc register --keep /root/scale.cu").stdout == "registered: scale\n"
        assert python(guest, CALL) == SCALED
        line = guest.run("vgc functions").stdout.splitlines()[1].split()
        assert line[:7] == ["scale(int32,", "float32,", "pointer,", "pointer)", line[4], "kept", "1"]
        guest.reset()
        assert python(guest, CALL) == SCALED
        guest.run("vgc unregister scale")
        assert guest.run("vgc functions").stdout.startswith("no functions are registered")
        refused = guest.run("vgc unregister scale 2>&1; true").stdout
        assert "no registered program has a function 'scale'" in refused


def as_user(*command: str, group: int) -> str:
    """Command line that runs `command` as a user without rights, in one group."""
    program = (
        f"import os; os.setgroups([]); os.setgid({group}); os.setuid(1000); os.execvp({command[0]!r}, {command!r})"
    )
    return f"python3 -c {shlex.quote(program)}"


def test_a_group_that_was_given_the_device_uses_it_without_root_rights() -> None:
    computes = as_user("python3", "examples/matmul.py", "--size", "64", group=4242)
    with guest_with_device() as (guest, _):
        refused = guest.run(as_user("vgc", "info", group=4242) + " 2>&1; echo status $?").stdout
        assert "a group to which 'vgc grant GROUP' gave the device" in refused
        assert refused.endswith("status 1\n")
        assert "there is no group nobodys" in guest.run("vgc grant nobodys 2>&1; true").stdout
        assert "the group 4242 may use 0000:" in guest.run("vgc grant 4242").stdout
        info = guest.run(as_user("vgc", "info", group=4242)).stdout
        assert "(cpu), ready, generation 1" in info
        assert "no interrupts" not in info
        assert "may use 0000:" in guest.run(as_user("vgc", "doctor", group=4242)).stdout
        assert "right" in guest.run(computes).stdout
        refused = guest.run(as_user("vgc", "doctor", group=4243) + "; echo status $?").stdout
        assert "user id 1000 may not use the device" in refused
        assert refused.endswith("status 1\n")


def test_root_and_members_of_the_group_use_the_device_at_once() -> None:
    member = "import guest_driver as vgc\ndev = vgc.Device(spin_s=1e-9)\nopen('/tmp/up', 'w').close()\n"
    member += "import os, time\nwhile not os.path.exists('/tmp/done'):\n    dev.nop()\nprint('well')\n"
    command = as_user("python3", "-c", member, group=4242)
    with guest_with_device() as (guest, _):
        guest.run("vgc grant 4242")
        started = guest.start(command)
        guest.run("while ! test -e /tmp/up; do sleep 0.01; done")
        for _ in range(3):  # each closes /dev/uioN, which stops the device; the member starts it again
            assert python(guest, "print(dev.nop().exec_ns >= 0)") == "True"
        guest.run("touch /tmp/done")
        assert guest.result(started, command).stdout == "well\n"


def test_processes_share_the_device_and_its_interrupt() -> None:
    with guest_with_device() as (guest, _):
        assert python(guest, SLEEPERS, opens=False) == "[0, 0, 0]"


def test_device_goes_on_after_a_process_was_killed() -> None:
    with guest_with_device() as (guest, _):
        pipe = "ready_in, ready_out = os.pipe()\n"
        assert python(guest, pipe + KILLED_HOLDER, opens=False) == "2 0"


def test_device_comes_up_again_after_the_guest_restarts() -> None:
    """The state from before the restart is gone, and the rings are at their old places."""
    with guest_with_device() as (guest, _):
        assert python(guest, "print(dev.nop().exec_ns >= 0)") == "True"
        guest.run("rm /run/vgc/*.state")  # as after a restart, when /run is empty
        assert python(guest, "print(dev.usage().num_contexts)") == "1"


def test_killed_worker_shows_as_a_lost_device_only() -> None:
    script = """
memory = dev.alloc(1 << 20)
open("/tmp/up", "w").close()
while not os.path.exists("/tmp/killed"):
    time.sleep(0.01)
try:
    memory.write(bytes(100))
except vgc.DeviceLost as error:
    print("lost")
dev.reset()
print(dev.info().generation, dev.usage().memory_used_bytes)
"""
    with guest_with_device() as (guest, vgcd):
        program = "import os, time\nimport guest_driver as vgc\ndev = vgc.Device()\n" + script
        command = f"python3 -c {shlex.quote(program)}"
        started = guest.start(command)
        guest.run("while ! test -e /tmp/up; do sleep 0.01; done")
        kill_workers(vgcd)
        guest.run("touch /tmp/killed")
        assert guest.result(started, command).stdout.split("\n")[:2] == ["lost", "2 0"]


def kill_workers(vgcd: Vgcd) -> None:
    """Sends SIGKILL to the daemon's launcher, which takes the worker with it; returns when both are gone."""
    launchers = vgcd.worker_pids()
    with ExitStack() as stack:
        ends = [os.pidfd_open(pid) for pid in (*launchers, *(one for pid in launchers for one in descendants(pid)))]
        for end in ends:
            stack.callback(os.close, end)
        for pid in launchers:
            os.kill(pid, signal.SIGKILL)
        for end in ends:
            select.select([end], [], [])
