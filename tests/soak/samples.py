"""Samples of the resources that processes use, by part of the host, and of a null request's latency."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.attached import AttachedLink
from tests.fakes.guest import REPOSITORY
from tests.processes import descendants
from tests.soak.host import PROBED, SoakHost

MIB: Final = float(1 << 20)
PARTS: Final = ("keeper", "daemon", "spare", "workers", "centre", "guests")
"""Parts of a host; `workers` are all processes that belong to workers and compilers; `guests` is the soak itself."""
PROBES: Final = 200
"""Null requests of a sample."""


@dataclass(frozen=True, slots=True)
class Use:
    """Resources that processes use together. Memory is PSS: what several processes share counts as a part for each."""

    pss_bytes: int
    fds: int
    threads: int
    processes: int = 1

    def __add__(self, other: Use) -> Use:
        return Use(
            self.pss_bytes + other.pss_bytes,
            self.fds + other.fds,
            self.threads + other.threads,
            self.processes + other.processes,
        )


NOTHING: Final = Use(0, 0, 0, 0)


def use_of(pid: int) -> Use:
    """Use of a process; `NOTHING` if it has ended."""
    folder = Path(f"/proc/{pid}")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        pss = [line.split()[1] for line in (folder / "smaps_rollup").read_text().splitlines() if line[:4] == "Pss:"]
        return Use(int(pss[0]) * 1024, _entries(folder / "fd"), _entries(folder / "task"))
    return NOTHING


def _entries(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())


def uses(host: SoakHost) -> Mapping[str, Use]:
    """Use of each part of the host that is there now."""
    named = {"keeper": host.keeper.pid, "daemon": host.daemon, "spare": host.spare, "centre": host.centre.pid}
    named["guests"] = os.getpid()
    found = {part: use_of(pid) for part, pid in named.items() if pid}
    others = set(descendants(host.keeper.pid)) - set(named.values())
    found["workers"] = sum((use_of(pid) for pid in others), NOTHING)
    return {part: use for part, use in found.items() if use.processes}


PROBE: Final = """
import sys, time
import guest_driver as vgc
device = vgc.Device(state_dir=sys.argv[1])
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        begin = time.perf_counter_ns()
        device.nop()
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    print(times[len(times) // 2], times[len(times) * 99 // 100], flush=True)
"""


class Probe:
    """Guest process of the VM that is there all the time: it measures null requests. Ends with its block."""

    def __init__(self, host: SoakHost) -> None:
        self._folder = host.folder

    def __enter__(self) -> Self:
        self._link = AttachedLink(self._folder / PROBED, num_queues=2)
        self._link.wait_ready()
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROBE, str(self._folder / "probe")],
            cwd=REPOSITORY,
            env=os.environ | {"VGC_MEMFD": self._link.description},
            pass_fds=self._link.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._link.close()

    def latencies(self) -> tuple[float, float]:
        """Median and 99th percentile of `PROBES` null requests, in microseconds.

        :raise RuntimeError: the guest's requests fail.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{PROBES}\n")
        self._process.stdin.flush()
        words = self._process.stdout.readline().split()
        if len(words) != 2:
            raise RuntimeError("null requests of the VM that nobody disturbs failed")
        return int(words[0]) / 1000, int(words[1]) / 1000


@dataclass(frozen=True, slots=True)
class Sample:
    """State of a host at one time."""

    at_s: float
    """Time since the run's begin."""
    replaces: bool
    """Daemons are replaced at this time."""
    values: Mapping[str, float]
    """By name and unit of each series, such as ``daemon MiB``."""


def take(host: SoakHost, probe: Probe, begin: float, *, replaces: bool) -> Sample:
    """Takes a sample."""
    values: dict[str, Any] = {}
    for part, use in uses(host).items():
        values[f"{part} MiB"] = use.pss_bytes / MIB
        values[f"{part} descriptors"] = use.fds
        values[f"{part} threads"] = use.threads
        if part == "workers":
            values["workers processes"] = use.processes
    values["null request p50 us"], values["null request p99 us"] = probe.latencies()
    by_name = {sys.intern(name): value for name, value in values.items()}  # a run has many samples
    return Sample(time.monotonic() - begin, replaces, by_name)
