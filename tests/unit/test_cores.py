"""Cores that VMs have for their own: lists of them, who gets which, and threads that are moved to them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vhost_backend.config.daemon import parse
from vhost_backend.cores import lists, threads
from vhost_backend.cores.pool import CorePool
from vhost_backend.errors import ConfigError, HostError

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


def these(*cores: int) -> frozenset[int]:
    return frozenset(cores)


@pytest.mark.parametrize(
    ("text", "cores", "again"),
    [("3", {3}, "3"), ("0-2,8", {0, 1, 2, 8}, "0-2,8"), (" 5, 4 ,4-4", {4, 5}, "4-5"), ("8191", {8191}, "8191")],
)
def test_lists_are_those_of_linux(text: str, cores: set[int], again: str) -> None:
    assert lists.parse(text) == cores
    assert lists.shown(cores) == again


@pytest.mark.parametrize("text", ["", "a", "2-1", "-1", "1,,2", "8192", "1-", "0-99999", "1;2"])
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no processor and no range of them, within 0-8191"):
        lists.parse(text)


def test_no_processors_are_shown_as_none() -> None:
    assert lists.shown(()) == "none"


# ---- configuration -------------------------------------------------------------------------------


def config(quota: str, engine: str = "cpu") -> str:
    return f"vms: {{a: {{socket: /s/a, engine: {engine}, quota: {{{quota}}}}}}}"


def test_cores_are_as_many_as_the_elements_or_say_how_many_there_are() -> None:
    (own,) = parse(config("pes: 2, cores: own")).vms
    (listed,) = parse(config("cores: 2-4")).vms
    (single,) = parse(config("cores: 3")).vms
    assert (own.quota.cores, own.quota.pes) == ("own", 2)
    assert (listed.quota.cores, listed.quota.pes) == (these(2, 3, 4), 3)
    assert (single.quota.cores, single.quota.pes) == (these(3), 1)


@pytest.mark.parametrize(
    ("quota", "engine", "problem"),
    [
        ("cores: mine", "cpu", "quota.cores is 'mine'; allowed: own, or processors such as 2-5 or 2,4"),
        ("cores: [2]", "cpu", "quota.cores is a list; allowed: own, or processors"),
        ("cores: true", "cpu", "quota.cores is True; allowed: own, or processors"),
        ("cores: own", "cpu", "quota.cores is own; allowed with a number of them, quota.pes"),
        ("pes: 2, cores: 4-7", "cpu", "quota.cores is 4-7; allowed with quota.pes of 2: as many, or own"),
        ("pes: 2, cores: own", "cuda", "quota.cores is set; allowed with the engine cuda: none"),
    ],
)
def test_cores_that_do_not_fit_the_vm_are_refused(quota: str, engine: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(config(quota, engine))
    assert problem in str(caught.value)


# ---- pool ----------------------------------------------------------------------------------------


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Two packages of two physical cores each, whose threads are 0 and 4, 1 and 5, 2 and 6, 3 and 7."""
    for core in range(8):
        folder = tmp_path / f"cpu{core}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{core % 4 // 2}\n")
        (folder / "core_id").write_text(f"{core % 2}\n")
    return tmp_path


@pytest.fixture
def stay() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def test_chosen_cores_are_near_each_other(system: Path, stay: contextlib.ExitStack) -> None:
    pool = CorePool(range(8), system)
    chosen = [stay.enter_context(pool.place(name, "own", count)).own for name, count in (("a", 2), ("b", 1), ("c", 3))]
    assert chosen == [these(3, 7), these(6), these(1, 4, 5)]
    assert pool.shared == {0, 2}


def test_cores_of_a_vm_are_no_other_ones_until_it_leaves(system: Path) -> None:
    pool = CorePool(range(4), system)
    told: list[frozenset[int]] = []
    with pool.watched(lambda: told.append(pool.shared)):
        with pool.place("a", frozenset({1, 2}), 2) as mine, pool.place("b", None, None) as other:
            assert (mine.elements, mine.others) == (these(1, 2), these(0, 1, 2, 3))
            assert (other.elements, other.others, other.own) == (these(0, 3), these(0, 3), None)
        assert pool.shared == pool.cores
    assert told == [{0, 3}, {0, 1, 2, 3}]


@pytest.mark.parametrize(
    ("wanted", "pes", "problem"),
    [
        (frozenset({2, 3}), 2, "b is to have the cores 2-3, and 2 are those of a; allowed: of 0-1,3"),
        (frozenset({3, 9}), 2, "b is to have the cores 3,9, and vgcd may not use 9 here; allowed: of 0-3"),
        ("own", 3, "b is to have 3 of the host's cores for its own, and 3 of 4 are left, of which one stays"),
        (frozenset({0, 1, 3}), 3, "and 3 of 4 are left, of which one stays for all others; allowed: 2"),
    ],
)
def test_cores_that_are_not_there_are_refused(system: Path, wanted: frozenset[int], pes: int, problem: str) -> None:
    pool = CorePool(range(4), system)
    with pool.place("a", frozenset({2}), 1):
        with pytest.raises(HostError) as caught, pool.place("b", wanted, pes):
            pass
        assert problem in str(caught.value)
        assert pool.shared == {0, 1, 3}


def test_hosts_that_tell_no_topology_have_cores_too(tmp_path: Path) -> None:
    with CorePool(range(3), tmp_path).place("a", "own", 2) as place:
        assert place.own == these(1, 2)


# ---- threads -------------------------------------------------------------------------------------

_FOUR_THREADS = """
import sys, threading
threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
print(*(thread.native_id for thread in threads), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process() -> Iterator[tuple[int, frozenset[int]]]:
    """A process and its threads but the main one."""
    argv = [sys.executable, "-c", _FOUR_THREADS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running.pid, frozenset(map(int, running.stdout.readline().split()))


def where(pid: int) -> dict[int, set[int]]:
    return {int(task.name): os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()}


@needs_two_cores
def test_elements_stay_where_they_are_when_others_move(process: tuple[int, frozenset[int]]) -> None:
    pid, others = process
    first, second = sorted(os.sched_getaffinity(0))[:2]
    element = min(others)
    threads.place(pid, {element}, {first}, {first, second})
    assert where(pid) == {thread: {first} if thread == element else {first, second} for thread in (pid, *others)}
    threads.move(pid, frozenset({first}), {second})
    assert where(pid) == {thread: {first} if thread == element else {second} for thread in (pid, *others)}
    threads.settle(pid, {first, second})
    assert set(map(frozenset, where(pid).values())) == {frozenset({first, second})}


@needs_two_cores
def test_threads_that_are_not_where_they_may_be_are_put_there(process: tuple[int, frozenset[int]]) -> None:
    pid, others = process
    first, second = sorted(os.sched_getaffinity(0))[:2]
    both = frozenset({first, second})
    server, right, wrong = sorted(others)
    threads.put(pid, right, {first})
    threads.put(pid, wrong, {second})
    threads.keep(pid, {pid, server}, frozenset(os.sched_getaffinity(0)), frozenset({first}))
    found = where(pid)
    assert (found[right], found[wrong]) == ({first}, {first})
    assert both <= found[server] == found[pid]


class Tasks:
    """A process's threads: what each listing of them finds, the last one from then on, and the processors of each."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *listings: set[int], online: frozenset[int] = frozenset(range(64))
    ) -> None:
        self.cores: dict[int, frozenset[int]] = {}
        self._listings = list(listings)
        self._online = online
        patch.setattr(Path, "iterdir", lambda _folder: self._listed())
        patch.setattr(os, "sched_getaffinity", lambda thread: self.cores.setdefault(thread, these(0, 1)) & online)
        patch.setattr(os, "sched_setaffinity", self.cores.__setitem__)
        patch.setattr(threads, "is_there", lambda _pid, _thread: True)

    def _listed(self) -> Iterator[Path]:
        found = self._listings.pop(0) if len(self._listings) > 1 else self._listings[0]
        return iter([Path(str(thread)) for thread in found])


def test_processes_that_start_threads_without_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Tasks(monkeypatch, *({thread} for thread in range(1000)))
    with pytest.raises(threads.RestlessError, match="process 7 starts threads without end"):
        threads.settle(7, {1})


def test_thread_that_a_listing_has_missed_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(monkeypatch, {1, 2}, {1}, {1}, {1, 3})
    threads.settle(7, {1})
    assert tasks.cores == {thread: {1} for thread in (1, 2, 3)}


def test_processors_that_the_host_has_lost_keep_nobody_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(monkeypatch, {1, 2}, online=these(0, 1, 2))
    threads.settle(7, {2, 3})
    assert tasks.cores == {1: {2, 3}, 2: {2, 3}}


def test_stranger_that_gets_a_thread_s_number_keeps_its_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks(monkeypatch, {1, 2}, {1})
    found = iter([True, False])
    monkeypatch.setattr(threads, "is_there", lambda _pid, thread: thread == 1 or next(found, False))
    threads.settle(7, {3})
    assert tasks.cores == {1: {3}, 2: {0, 1}}


def test_threads_are_found_by_name() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        Path(f"/proc/self/task/{thread.native_id}/comm").write_text("vgc-pe7")
        assert threads.named(os.getpid(), "vgc-pe") == {thread.native_id}
    finally:
        stop.set()
        thread.join()
