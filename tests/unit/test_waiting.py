"""Helpers by which tests wait: for conditions, and for threads that sleep."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import waiting
from tests.limits import HANGS_AFTER_S
from tests.waiting import sleeps_for_good, threads_of, turns_until, until
from vhost_backend.sandbox.syscalls import X86_64


def test_value_of_a_condition_is_returned_once_it_is_true() -> None:
    answers = iter([0, None, "", "there"])
    assert until(lambda: next(answers)) == "there"
    answers = iter([0, None, "", "there"])
    assert asyncio.run(turns_until(lambda: next(answers))) == "there"


def test_a_condition_that_never_comes_true_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "ANSWERS_WITHIN_S", 0)
    with pytest.raises(AssertionError, match="in vain"):
        until(lambda: False)
    with pytest.raises(TimeoutError):
        asyncio.run(turns_until(lambda: False))


def test_threads_are_found_by_their_names() -> None:
    assert Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}") in threads_of(os.getpid())
    assert threads_of(os.getpid(), "no such name") == []


@pytest.fixture
def event() -> Iterator[threading.Event]:
    """An event that is set at the end, to release waiting threads."""
    made = threading.Event()
    yield made
    made.set()


def waiter(wait: Callable[[], object]) -> Path:
    thread = threading.Thread(target=wait)
    thread.start()
    return Path(f"/proc/self/task/{thread.native_id}")


def test_thread_that_waits_without_a_timeout_sleeps_for_good(event: threading.Event) -> None:
    thread = waiter(event.wait)
    assert until(lambda: sleeps_for_good(thread))


def test_thread_that_waits_with_a_timeout_does_not_sleep_for_good(event: threading.Event) -> None:
    thread = waiter(lambda: event.wait(HANGS_AFTER_S))
    until(lambda: (thread / "syscall").read_text().startswith(f"{X86_64['futex']} "))
    assert not sleeps_for_good(thread)


def test_running_thread_does_not_sleep() -> None:
    assert not sleeps_for_good(Path(f"/proc/self/task/{threading.get_native_id()}"))
