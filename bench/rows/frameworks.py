"""Rows of frameworks in Python in a guest, unchanged, on the CPU engine: beside the engine's own time for the same work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.registry import Outcome, row
from bench.results import Goal, Samples, SkipRow, outcome
from bench.rows.cudart import device
from guest_driver import exec_command
from guest_driver.trace import lines, summary
from guest_driver.trace.perfetto import WORK
from tests.vm import frameworks_disk
from tests.vm import harness as vm
from tests.vm.vgcd import Vgcd, VmSettings
from tools import frameworks
from tools.common import REPOSITORY

PROGRAMS: Final = REPOSITORY / "bench" / "guest"
REGION_BYTES: Final = 256 << 20
COMMAND_SECONDS: Final = 600


@dataclass(frozen=True)
class Round:
    """Some repetitions of a thing: the time of one, the engine's own part of it by the host's clock, and how often one asked
    the device and slept.
    """

    each_ns: float
    engine_ns: float
    requests: float
    sleeps: float


Rounds = Mapping[str, Sequence[Round]]
"""Rounds by the name of what was measured."""


class Guest:
    """A guest's device on the CPU engine, and programs of frameworks that run as with `vgc trace`."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self._folder = lab.own_folder(name)
        self._rounds = lab.samples(15, 5)

    def run(self, python: Path, program: str, settings: Mapping[str, str]) -> Rounds:
        """Runs a program that prints lines "NAME COUNT BEGAN ENDED"; its first round compiles, and does not count.

        :raise SkipRow: it fails.
        """
        traced = self._folder / "traced"
        shutil.rmtree(traced, ignore_errors=True)
        traced.mkdir()
        environment = os.environ | exec_command.settings(exec_command.toolkit(), "13", os.environ)
        environment |= {"VGC_STATE_DIR": str(self._folder / "state"), "VGC_TRACE": str(traced), **settings}
        words = [str(word) for word in (python, PROGRAMS / program, self._rounds)]
        with device(self._folder, self._lab.threads, "cpu") as link:
            environment["VGC_MEMFD"] = link.description
            done = subprocess.run(
                words, env=environment, pass_fds=link.fds, capture_output=True, text=True, check=False
            )
        if done.returncode != 0:
            raise SkipRow(f"{program} failed: {done.stderr}")
        return _rounds(done.stdout, lines.read(traced))


def _rounds(printed: str, trace: lines.Trace) -> Rounds:
    found: defaultdict[str, list[Round]] = defaultdict(list)
    for line in printed.splitlines():
        name, *numbers = line.split()
        count, began, ended = map(int, numbers)
        asked = [request for request in trace.requests if began <= request.start_ns < ended]
        slept = [sleep for sleep in trace.sleeps if began <= sleep.start_ns < ended]
        engine_ns = sum(request.exec_ns for request in asked if request.opcode in WORK)
        found[name].append(
            Round((ended - began) / count, engine_ns / count, len(asked) / count, summary.waits(slept) / count)
        )
    return {name: rounds[1:] for name, rounds in found.items()}


def _samples(nanoseconds: Iterator[float], unit_ns: float) -> Samples:
    return Samples(tuple(value / unit_ns for value in nanoseconds))


@row("tinygrad_matmul_ms", "tinygrad_step_ms", "tinygrad_step_requests", "tinygrad_step_sleeps")
def tinygrad(lab: Lab) -> Iterator[Outcome]:
    """A product of 512 x 512 matrices, and a step of a small network's training, by tinygrad's device CUDA. The other side
    is what would be left without a VM: the engine's own time, and that of the same program on tinygrad's device NULL, which
    does all but compute. The step is counted, too: its requests to the device, and its sleeps until an answer.
    """
    guest = Guest(lab, "tinygrad")
    settings = {"PARALLEL": "0", "CACHELEVEL": "0"}
    ours, without = (
        guest.run(Path(sys.executable), "tinygrad_steps.py", settings | {"DEV": name}) for name in ("CUDA", "NULL")
    )
    for name in ("matmul", "step"):
        pairs = zip(ours[name], without[name], strict=True)
        yield outcome(
            f"tinygrad_{name}_ms",
            _samples((one.each_ns for one in ours[name]), 1e6),
            "ms",
            "lower",
            _samples((one.engine_ns + nothing.each_ns for one, nothing in pairs), 1e6),
            against="the engine's time and tinygrad's own",
            goal=Goal("ratio", "<", 1.1),
        )
    steps = ours["step"]
    yield outcome("tinygrad_step_requests", Samples(tuple(one.requests for one in steps)), "", "lower")
    yield outcome("tinygrad_step_sleeps", Samples(tuple(one.sleeps for one in steps)), "", "lower")


@row("tinygrad_vm_matmul_ms", "tinygrad_vm_step_ms")
def tinygrad_in_vm(lab: Lab) -> Iterator[Outcome]:
    """Both in a VM, beside those without QEMU."""
    settings = {"PARALLEL": "0", "CACHELEVEL": "0", "DEV": "CUDA"}
    rounds = lab.samples(5, 2)
    without = Guest(lab, "tinygrad-vm").run(Path(sys.executable), "tinygrad_steps.py", settings)
    described = VmSettings("bench", region_bytes=REGION_BYTES, extra={"engine": "cpu", "quota": {"pes": lab.threads}})
    try:
        with (
            Vgcd(described) as daemon,
            vm.Guest(daemon.device("bench"), development=True, disks=[frameworks.disk()]) as guest,
        ):
            frameworks_disk.mount(guest)
            guest.put(PROGRAMS / "tinygrad_steps.py", "/root/tinygrad_steps.py")
            command = frameworks_disk.command(f"tinygrad_steps.py {rounds}", settings)
            found = _rounds(guest.run(command, timeout=COMMAND_SECONDS).stdout, lines.Trace())
            against = f"without QEMU (the VM on {guest.machine})"
    except (vm.GuestError, SystemExit) as error:
        raise SkipRow(f"no guest: {'see the error above' if isinstance(error, SystemExit) else error}") from error
    for name in ("matmul", "step"):
        ours, theirs = (_samples((one.each_ns for one in side[name]), 1e6) for side in (found, without))
        yield outcome(f"tinygrad_vm_{name}_ms", ours, "ms", "lower", theirs, against=against)


@row("pycuda_elementwise_us")
def pycuda(lab: Lab) -> Iterator[Outcome]:
    """PyCUDA's ElementwiseKernel on a million floats, until it has ended."""
    python = frameworks.python("pycuda")
    if python is None:
        raise SkipRow("PyCUDA is not installed: make frameworks")
    found = Guest(lab, "pycuda").run(python, "pycuda_elementwise.py", {})["elementwise"]
    ours, engine = (
        _samples(times, 1e3) for times in ((one.each_ns for one in found), (one.engine_ns for one in found))
    )
    yield outcome("pycuda_elementwise_us", ours, "us", "lower", engine, against="the engine's time")
