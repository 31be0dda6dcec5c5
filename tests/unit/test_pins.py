"""Busy processing elements, each of which gets a processor of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from vhost_backend.cores import threads
from vhost_backend.cores.pins import Pins
from vhost_backend.cores.threads import Times

SECOND = 10**9


class Host:
    """Threads whose wanted time the test tells, on processors that it gives."""

    def __init__(self, patch: pytest.MonkeyPatch, elements: int, cores: int) -> None:
        self.now = 0
        self.cores = frozenset(range(cores))
        self.wanted: dict[int, int | None] = dict.fromkeys(range(10, 10 + elements), 0)
        self.put: dict[int, frozenset[int]] = {}
        patch.setattr(threads, "times", lambda _pid, thread: self.times(thread))
        patch.setattr(threads, "put", lambda _pid, thread, on: self.put.__setitem__(thread, frozenset(on)))
        self.pins = Pins(1, self.wanted, lambda: self.cores, lambda: self.now)
        self.pins.look()

    def times(self, thread: int) -> Times | None:
        wanted = self.wanted[thread]
        return None if wanted is None else Times(wanted // 3, wanted - wanted // 3, 0)

    def look(self, *parts: float) -> dict[int, frozenset[int]]:
        """Looks after a second, for such parts of which the threads wanted a processor; tells where they run."""
        self.now += SECOND
        for thread, part in zip(self.wanted, parts, strict=True):
            before = self.wanted[thread]
            self.wanted[thread] = None if before is None else before + int(part * SECOND)
        self.pins.look()
        return self.put


def on(*cores: int) -> frozenset[int]:
    return frozenset(cores)


def test_busy_elements_get_a_processor_each_until_one_has_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 2, 2)
    assert host.look(1.0, 0.9) == {}
    assert host.look(1.0, 0.97) == {10: on(0), 11: on(1)}
    assert host.look(0.8, 1.0) == {10: on(0), 11: on(1)}, "once they have a processor, a pause is no reason"
    assert host.look(0.7, 1.0) == {10: on(0, 1), 11: on(0, 1)}
    assert not host.pins.are_set


@pytest.mark.parametrize(("elements", "cores"), [(2, 3), (3, 2), (1, 1), (2, 1)])
def test_elements_that_are_more_or_fewer_than_processors_stay_on_all(
    monkeypatch: pytest.MonkeyPatch, elements: int, cores: int
) -> None:
    host = Host(monkeypatch, elements, cores)
    for _ in range(3):
        assert host.look(*[1.0] * elements) == {}


def test_elements_without_work_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a VM may not use any more still are threads."""
    host = Host(monkeypatch, 3, 2)
    assert host.look(1.0, 0.0, 1.0) == {10: on(0), 12: on(1)}


def test_elements_get_other_processors_when_the_vm_does(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 2, 2)
    host.look(1.0, 1.0)
    host.cores = on(0, 1, 2)
    assert host.look(1.0, 1.0) == {10: on(0, 1, 2), 11: on(0, 1, 2)}
    host.cores = on(5, 7)
    host.look(1.0, 1.0)
    assert host.look(1.0, 1.0) == {10: on(5), 11: on(7)}


def test_elements_that_have_ended_or_are_not_counted_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, 2, 2)
    host.wanted[11] = None
    assert host.look(1.0, 1.0) == {}


_SPINNERS = """
import hashlib, sys, threading
threads = [threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 2**31 - 1), daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
print(*(thread.native_id for thread in threads), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def spinners() -> Iterator[tuple[int, list[int]]]:
    """A process, and two threads of it that always compute."""
    argv = [sys.executable, "-c", _SPINNERS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running.pid, sorted(map(int, running.stdout.readline().split()))
        running.kill()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count the times of threads")
def test_threads_that_compute_are_busy_however_loaded_the_host_is(spinners: tuple[int, list[int]]) -> None:
    pid, elements = spinners
    cores = sorted(os.sched_getaffinity(0))[:2]
    watch = Pins(pid, elements, lambda: frozenset(cores))

    def are_set() -> bool:
        watch.look()
        return watch.are_set

    until(are_set)
    assert [os.sched_getaffinity(thread) for thread in elements] == [{core} for core in cores]
    watch.take_out()
    assert [os.sched_getaffinity(thread) for thread in elements] == [set(cores)] * 2


def test_thread_whose_number_a_stranger_has_is_left_alone(spinners: tuple[int, list[int]]) -> None:
    """Guest code may end an element's thread, and another process gets its number."""
    before = os.sched_getaffinity(0)
    for stranger in spinners[1]:
        threads.put(os.getpid(), stranger, {min(before)})
    assert [os.sched_getaffinity(stranger) for stranger in spinners[1]] == [before] * 2
