"""Figures of the rows of many VMs: rates from the ends of work, Jain's index, errors of shares, and jobs that go on."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from bench.greed import Turns, greedy, rate
from bench.rows.cores import jain, percent_off
from tests.limits import HANGS_AFTER_S

NS = 1_000_000_000


def ends(*seconds: float) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([int(one * NS) for one in seconds], np.uint64)


def test_rate_is_that_between_two_times() -> None:
    before, between, after = np.arange(0, 0.99, 0.001), np.arange(1, 3.01, 0.125), np.arange(3.1, 4, 0.01)
    assert rate(ends(*before, *between, *after), NS, 3 * NS) == pytest.approx(8.0)


def test_ends_in_groups_count_for_the_time_before_them() -> None:
    assert rate(ends(*(second for second in range(10) for _ in range(4))), 0, 9 * NS) == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("times", [(), (0.5, 0.7), (1.1,) * 20, (1.1, 1.2, 1.3), (3.5,) * 9])
def test_too_little_work_has_no_rate(times: tuple[float, ...]) -> None:
    assert rate(ends(*times), NS, 3 * NS) is None


def test_fairness_is_1_only_if_all_get_the_same() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0]) == pytest.approx(0.5)
    assert jain([2.0, 1.0]) == pytest.approx(0.9)


def test_error_of_a_share_is_relative_to_what_was_given() -> None:
    assert percent_off(0.27, 0.25) == pytest.approx(8.0)
    assert percent_off(0.23, 0.25) == pytest.approx(8.0)


class Meets:
    """Turn of a job that waits for another's first one."""

    def __init__(self, own: threading.Event, other: threading.Event) -> None:
        self._own, self._other = own, other

    def __call__(self) -> None:
        self._own.set()
        assert self._other.wait(HANGS_AFTER_S)


def test_jobs_work_side_by_side_until_they_are_stopped_and_once_more() -> None:
    first, second = threading.Event(), threading.Event()
    jobs = [Turns(Meets(first, second)), Turns(Meets(second, first))]
    for _ in range(2):
        first.clear()
        second.clear()
        with greedy(jobs):
            assert first.wait(HANGS_AFTER_S)
            assert second.wait(HANGS_AFTER_S)
        assert all(len(job.times) >= 1 for job in jobs)


def test_what_a_job_raises_is_raised_at_the_end() -> None:
    def fail() -> None:
        raise ArithmeticError("a wrong result")

    with pytest.raises(ArithmeticError, match="a wrong result"), greedy([Turns(fail)]):
        pass
