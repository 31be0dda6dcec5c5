"""Arithmetic of the soak: trends and their errors, the rule for growth, and accounts that must add up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.soak import report
from tests.soak.account import Account, End, record_problems, stored_by_vm
from tests.soak.samples import Sample
from tests.soak.trend import MAX_CORRELATION, MIN_SAMPLES, correlation, trend

TIMES = [float(10 * i) for i in range(361)]
"""An hour, a sample each ten seconds."""


def noise(seed: int) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(0, 1) for _ in TIMES]


# ---- trends ------------------------------------------------------------------------------------------


def test_slope_of_a_straight_line_is_exact() -> None:
    line = trend(TIMES, [5 + 2 * time / 3600 for time in TIMES])
    assert line is not None
    assert line.slope == pytest.approx(2)
    assert line.error == pytest.approx(0, abs=1e-9)
    assert line.first == 5
    assert line.last == pytest.approx(7)
    assert line.span_h == pytest.approx(1)
    assert line.grows(1.9)
    assert not line.grows(2.1)


def test_standard_error_is_that_of_least_squares() -> None:
    """Worked by hand: residuals alternate, so that neighbours are not correlated positively."""
    values = [1.0, -1.0] * 5
    line = trend([360.0 * i for i in range(10)], values)
    assert line is not None
    spread = sum((0.1 * i - 0.45) ** 2 for i in range(10))
    slope = sum((0.1 * i - 0.45) * value for i, value in enumerate(values)) / spread
    squares = sum((value - slope * (0.1 * i - 0.45)) ** 2 for i, value in enumerate(values))
    assert line.slope == pytest.approx(slope)
    assert line.error == pytest.approx((squares / 8 / spread) ** 0.5)


def test_noise_hides_a_small_slope_and_not_a_large_one() -> None:
    for seed in range(20):
        still = trend(TIMES, noise(seed))
        rising = trend(TIMES, [value + 3 * time / 3600 for value, time in zip(noise(seed), TIMES, strict=True)])
        assert still is not None
        assert rising is not None
        assert not still.grows(1.0)
        assert rising.grows(1.0)


def test_neighbours_that_are_alike_widen_the_error() -> None:
    wandering, at = [], 0.0
    for step in noise(1):
        at = 0.9 * at + step
        wandering.append(at)
    line, mixed = trend(TIMES, wandering), trend(TIMES, random.Random(2).sample(wandering, len(wandering)))
    assert line is not None
    assert mixed is not None
    assert line.error > 2 * mixed.error


def test_fall_is_no_growth() -> None:
    line = trend(TIMES, [-100 * time for time in TIMES])
    assert line is not None
    assert not line.grows(0.0)


def test_few_samples_and_samples_of_one_time_have_no_trend() -> None:
    few = MIN_SAMPLES - 1
    assert trend(TIMES[:few], [1.0] * few) is None
    assert trend([3.0] * MIN_SAMPLES, [1.0] * MIN_SAMPLES) is None
    with pytest.raises(ValueError, match="2 times and 1 values"):
        trend([1.0, 2.0], [1.0])


def test_correlation_is_bounded() -> None:
    assert correlation([1.0, -1.0] * 10) == 0
    assert correlation([0.0] * 10) == 0
    assert correlation([1.0] * 1000) == MAX_CORRELATION


# ---- the report --------------------------------------------------------------------------------------


def samples(value: Callable[[float], float], series: str) -> list[Sample]:
    """Two hours, the first with daemons that are replaced."""
    return [
        Sample(at_s, replaces, {series: value(at_s)})
        for replaces, begin in ((True, 0.0), (False, 3600.0))
        for at_s in (begin + time for time in TIMES)
    ]


def test_leak_is_found_in_both_halves_and_named() -> None:
    found = report.growing(report.trends(samples(lambda at_s: 40 + at_s / 600, "daemon MiB")))
    assert [text.partition(":")[0] for text in found] == [
        "daemon MiB grows (replaced daemons)",
        "daemon MiB grows (staying daemons)",
    ]
    assert "+6.0 an hour" in found[0]


def test_warm_up_is_left_out() -> None:
    part = report.WARM_UP
    assert not report.growing(
        report.trends(samples(lambda at_s: min(at_s % 3600, part * 3600) / 10, "keeper descriptors"))
    )
    kept = report.halves(samples(lambda at_s: at_s, "x MiB"))
    assert kept["replaced"][0].at_s == pytest.approx(part * 3600, abs=10)
    assert kept["staying"][-1].at_s == 7200


def test_latency_may_grow_and_a_short_half_is_not_judged() -> None:
    assert not report.growing(report.trends(samples(lambda at_s: at_s, "null request p50 us")))
    short = [Sample(float(i), True, {"daemon MiB": 10.0 * i}) for i in range(100)]
    found = report.trends(short)
    assert found["replaced", "daemon MiB"].slope == pytest.approx(36_000)
    assert not report.growing(found)


def test_every_trend_has_a_line() -> None:
    found = report.trends(samples(lambda at_s: at_s, "centre threads"))
    head, *rows = report.lines(found)
    assert [row.split()[:3] for row in rows] == [["replaced", "centre", "threads"], ["staying", "centre", "threads"]]
    assert head.split()[-3:] == ["per", "hour", "error"]


# ---- accounts ----------------------------------------------------------------------------------------


def test_request_that_never_ends_is_found() -> None:
    account = Account()
    for how in End:
        account.begin()
        account.end(how)
    account.check_ended()
    assert not account.findings
    account.begin()
    account.check_ended()
    assert account.findings == [f"1 of {len(End) + 1} requests never ended"]


def test_figures_name_all_counts() -> None:
    account = Account()
    account.begin()
    account.end(End.LOST)
    account.happen("snapshots")
    account.expect_death("a")
    assert account.figures["requests begun"] == account.figures["requests lost"] == account.figures["snapshots"] == 1
    assert account.figures["requests done"] == 0
    assert (account.deaths("a"), account.deaths("b")) == (1, 0)


def test_records_that_do_not_add_up_are_found() -> None:
    row: dict[str, int | str] = {"vm": "a", "made": 10, "kept": 7, "lost": 2, "left_out": 1}
    assert record_problems([row], {"a": (7, 2)}) == []
    assert record_problems([row | {"made": 11}], {"a": (7, 2)}) == [
        "records of a: 11 made, but 7 kept + 2 lost + 1 left out"
    ]
    assert record_problems([row], {}) == ["records of a: 7 kept and 2 lost by the account, 0 and 0 in the store"]


def test_store_of_vms_that_share_an_account_is_what_the_others_leave() -> None:
    store = {"": (100, 10), "vm%3Da": (7, 2), "vm%3Db": (13, 1)}
    assert stored_by_vm(["", "a", "b"], store.__getitem__) == {"a": (7, 2), "b": (13, 1), "": (80, 7)}
