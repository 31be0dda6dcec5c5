"""CPU time that processes take during a measurement."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench.processes import cpu_ns
from bench.stats import Subject

MYSELF: Final = (os.getpid(),)


class CpuMeter:
    """Wrapper of a subject that also measures CPU seconds per second of wall time.

    :param groups: process ids by the name of their group in the report.
    """

    def __init__(self, subject: Subject, groups: Mapping[str, Sequence[int]]) -> None:
        self._subject = subject
        self._groups = groups
        self._cpus: dict[str, list[float]] = {name: [] for name in groups}

    def __call__(self) -> float:
        before = {name: cpu_ns(pids) for name, pids in self._groups.items()}
        start = time.monotonic_ns()
        figure = self._subject()
        elapsed = time.monotonic_ns() - start
        for name, pids in self._groups.items():
            self._cpus[name].append((cpu_ns(pids) - before[name]) / elapsed)
        return figure

    @property
    def parts(self) -> dict[str, float]:
        """Number of busy CPUs by group, the median of all calls."""
        return {name: statistics.median(values) for name, values in self._cpus.items()}

    @property
    def cpus(self) -> float:
        """Number of busy CPUs of all groups together."""
        return sum(self.parts.values())
