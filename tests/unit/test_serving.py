"""Threads that serve a VM with processors to itself: where they run, and their time slices."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vhost_backend.cores import slices, threads
from vhost_backend.cores.serving import Serving
from vhost_backend.cores.threads import Times

SECOND = 10**9
MINE, ALL = frozenset({3}), frozenset({0, 1, 3})
SERVERS = (7, 8)


class Host:
    """Two serving threads whose times the test tells."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.mine = MINE
        self.times = dict.fromkeys(SERVERS, Times(0, 0, 0))
        self.put: list[frozenset[int]] = []
        patch.setattr(threads, "times", lambda _pid, thread: self.times.get(thread))
        patch.setattr(threads, "put", lambda _pid, _thread, on: self.put.append(frozenset(on)))
        self.serving = Serving(1, SERVERS, lambda: self.mine, lambda: ALL, lambda: self.now)
        self.serving.look()

    def look(self, waited_ms: float, turns: int, after_s: float = 0.25) -> list[frozenset[int]]:
        """Looks after some time, in which the second thread has waited so often; where all were put, if they were."""
        self.now += int(after_s * SECOND)
        before = self.times[8]
        self.times[8] = Times(0, before.waited_ns + int(waited_ms * 1e6), before.turns + turns)
        self.put.clear()
        self.serving.look()
        return self.put


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_threads_that_wait_long_for_others_are_kept_to_the_vm_s_processors_for_a_while(host: Host) -> None:
    assert host.look(waited_ms=50, turns=25) == [MINE] * 2
    assert host.look(waited_ms=200, turns=25, after_s=29) == [], "who waits for its own elements cannot tell"
    assert host.look(waited_ms=200, turns=25, after_s=1) == [ALL] * 2
    assert host.look(waited_ms=50, turns=25) == [], "what they waited meanwhile does not count"
    assert host.look(waited_ms=50, turns=25) == [MINE] * 2


@pytest.mark.parametrize(
    ("waited_ms", "turns"), [(100, 10_000), (4, 2), (0, 0)], ids=["hand each other work", "seldom", "rest"]
)
def test_threads_that_wait_shortly_or_seldom_use_all_processors(host: Host, waited_ms: float, turns: int) -> None:
    for _ in range(5):
        assert host.look(waited_ms, turns) == []


def test_threads_of_a_vm_without_processors_to_itself_are_left_alone(host: Host) -> None:
    host.mine = frozenset()
    for _ in range(3):
        assert host.look(waited_ms=100, turns=10) == []
    host.mine = MINE
    assert host.look(waited_ms=100, turns=10) == [], "the first look only says what they have waited until now"
    assert host.look(waited_ms=100, turns=10) == [MINE] * 2


def test_threads_stay_when_the_vm_gets_other_processors_and_no_longer_than_it_has_some(host: Host) -> None:
    host.look(waited_ms=50, turns=25)
    host.mine = frozenset({1})
    host.serving.moved()
    assert host.put[-2:] == [{1}, {1}]
    host.mine = frozenset()
    host.put.clear()
    host.serving.moved()
    assert (host.put, host.serving.are_kept) == ([], False)


def test_threads_that_have_ended_or_are_not_counted_do_not_matter(host: Host) -> None:
    del host.times[7]
    assert host.look(waited_ms=50, turns=25) == [MINE] * 2


# ---- time slices ---------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    """Two threads of this process."""
    stop = threading.Event()
    made = [threading.Thread(target=stop.wait) for _ in range(2)]
    for thread in made:
        thread.start()
    try:
        first, second = (thread.native_id for thread in made)
        assert first is not None
        assert second is not None
        yield first, second
    finally:
        stop.set()
        for thread in made:
            thread.join()


def test_threads_have_short_slices_but_those_that_are_left_out(pair: tuple[int, int]) -> None:
    served, element = pair
    usual_ns = slices.slice_of(element)
    if usual_ns == 0:
        pytest.skip("this kernel gives no thread slices of its own: Linux 6.12 does")
    everybody = threads.named(os.getpid(), "")
    slices.set_slices(os.getpid(), slices.SHORT_NS, everybody - {served})
    try:
        assert (slices.slice_of(served), slices.slice_of(element)) == (slices.SHORT_NS, usual_ns)
    finally:
        slices.set_slices(os.getpid(), slices.USUAL_NS, everybody - {served})
    assert slices.slice_of(served) == usual_ns


def test_slices_keep_a_thread_s_niceness(pair: tuple[int, int]) -> None:
    served, _other = pair
    os.setpriority(os.PRIO_PROCESS, served, 3)
    slices.set_slices(os.getpid(), slices.SHORT_NS, threads.named(os.getpid(), "") - {served})
    assert os.getpriority(os.PRIO_PROCESS, served) == 3


def test_thread_that_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = 2**22 + 1  # more than the kernel's highest number
    listings = iter([[Path(str(gone))], [], [], []])
    monkeypatch.setattr(Path, "iterdir", lambda _folder: iter(next(listings)))
    slices.set_slices(os.getpid(), slices.SHORT_NS)


def test_machine_that_is_not_known_has_no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_CALLS", {})
    with pytest.raises(OSError, match="attributes of a thread: Function not implemented"):
        slices.slice_of(os.getpid())
