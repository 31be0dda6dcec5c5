"""Cost of processes: resident memory by kind, CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.cuda.cpu_time import CpuMeter
from bench.processes import Resident, cpu_ns, resident

MIB = 1 << 20
SIZE_MIB, HALF_MIB = 64, 32  # the kernel's counts are not exact to the page
SHARED = f"import mmap, os; fd = os.memfd_create('region'); os.ftruncate(fd, {SIZE_MIB * MIB}); m = mmap.mmap(fd, 0)"
PRIVATE = f"import mmap; m = mmap.mmap(-1, {SIZE_MIB * MIB}, flags=mmap.MAP_PRIVATE)"
TOUCH = f"for i in range(0, {SIZE_MIB * MIB}, 4096): m[i] = 1"


@contextmanager
def process(*lines: str) -> Iterator[int]:
    """A Python process that has run the lines, and waits."""
    text = "\n".join([*lines, "print('ready', flush=True)", "input()"])
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        assert made.stdin is not None
        assert made.stdout is not None
        assert made.stdout.readline() == b"ready\n"
        yield made.pid
        made.stdin.close()


def test_pages_of_a_shared_region_do_not_count_as_a_processs_own() -> None:
    with process(SHARED, TOUCH) as pid:
        found = resident([pid])
    assert found.shared > HALF_MIB
    assert found.anon < HALF_MIB


def test_memory_that_a_process_has_written_counts_as_its_own() -> None:
    with process(PRIVATE, TOUCH) as pid:
        found = resident([pid])
    assert found.anon > HALF_MIB
    assert found.shared < HALF_MIB


def test_memory_of_several_processes_is_added_up() -> None:
    with process(SHARED, TOUCH) as first, process(PRIVATE, TOUCH) as second:
        both = resident([first, second])
    assert both.shared > HALF_MIB
    assert both.anon > HALF_MIB
    assert both.total == both.anon + both.file + both.shared
    assert resident([]) == Resident(0, 0, 0)


def test_process_that_is_gone_takes_no_cpu_time() -> None:
    with process() as pid:
        assert cpu_ns([pid]) > 0
    assert cpu_ns([pid]) == 0


def test_meter_reports_the_cpu_time_of_each_group_beside_the_figure() -> None:
    def work() -> float:
        begin = cpu_ns([os.getpid()])
        while cpu_ns([os.getpid()]) - begin < 10_000_000:
            pass
        return 7.0

    meter = CpuMeter(work, {"this": [os.getpid()], "nobody": []})
    assert meter() == 7.0
    assert meter.parts["this"] > 0
    assert meter.parts["nobody"] == 0
    assert meter.cpus == sum(meter.parts.values())
