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


def test_rate_is_from_one_end_of_work_to_another() -> None:
    assert rate(ends(0.1, 1.0, 1.5, 2.0, 2.5, 3.0), NS) == pytest.approx(2.0)


def test_ends_that_were_seen_at_once_are_not_counted_for_the_time_before() -> None:
    assert rate(ends(1.0, 1.0, 1.0, 2.0, 3.0), NS) == pytest.approx(1.0)


@pytest.mark.parametrize("times", [(), (0.5, 0.7), (0.5, 1.5), (1.5, 1.5)])
def test_too_little_work_has_no_rate(times: tuple[float, ...]) -> None:
    assert rate(ends(*times), NS) is None


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
