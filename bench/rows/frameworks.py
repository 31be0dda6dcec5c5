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
from guest_driver.trace import lines
from guest_driver.trace.perfetto import WORK
from tools import frameworks
from tools.common import REPOSITORY

PROGRAMS: Final = REPOSITORY / "bench" / "guest"


@dataclass(frozen=True)
class Round:
    """Some repetitions of a thing, each of which took `each_ns`, and the engine's own part of that by the host's clock."""

    each_ns: float
    engine_ns: float


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
        work = (request for request in trace.requests if request.opcode in WORK)
        engine_ns = sum(request.exec_ns for request in work if began <= request.start_ns < ended)
        found[name].append(Round((ended - began) / count, engine_ns / count))
    return {name: rounds[1:] for name, rounds in found.items()}


def _samples(nanoseconds: Iterator[float], unit_ns: float) -> Samples:
    return Samples(tuple(value / unit_ns for value in nanoseconds))


@row("tinygrad_matmul_ms", "tinygrad_step_ms")
def tinygrad(lab: Lab) -> Iterator[Outcome]:
    """A product of 512 x 512 matrices, and a step of a small network's training, by tinygrad's device CUDA. The other side
    is what would be left without a VM: the engine's own time, and that of the same program on tinygrad's device NULL, which
    does all but compute.
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
