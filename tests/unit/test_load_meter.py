"""Loads from busy times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.control.load.meter import NS_PER_S, STALE_NS, Sample, VmMeter, packed


def metered(*samples: tuple[float, dict[int, float]]) -> VmMeter:
    """A meter that was told of (second, busy seconds by element)."""
    meter = VmMeter()
    for second, busy in samples:
        meter.note(Sample(int(second * NS_PER_S), {pe: int(part * NS_PER_S) for pe, part in busy.items()}))
    return meter


def test_load_is_busy_time_of_the_last_second() -> None:
    meter = metered((0, {0: 0, 1: 0}), (1, {0: 1.0, 1: 0.0}), (2, {0: 1.25, 1: 0.5}))
    assert meter.elements(2 * NS_PER_S) == {0: 0.25, 1: 0.5}


def test_a_vm_that_was_not_watched_for_long_has_no_sustained_demand() -> None:
    meter = metered((0, {0: 0}), (4, {0: 4}))
    assert meter.sustained(4 * NS_PER_S) is None
    meter.note(Sample(10 * NS_PER_S, {0: 10 * NS_PER_S}))
    assert meter.sustained(10 * NS_PER_S) == 1.0


def test_demand_is_of_the_last_seconds_and_not_of_all_time() -> None:
    meter = metered(*((float(second), {0: min(second, 20.0)}) for second in range(41)))
    assert meter.sustained(40 * NS_PER_S) == 0.0


def test_a_new_worker_begins_anew() -> None:
    meter = metered((0, {0: 100}), (1, {0: 101}), (2, {0: 0.5}), (3, {0: 1.0}))
    assert meter.elements(3 * NS_PER_S) == {0: 0.5}
    meter.note(Sample(4 * NS_PER_S, {0: 2 * NS_PER_S, 1: 0}))
    assert meter.elements(4 * NS_PER_S) == {}


def test_what_is_not_heard_of_any_more_does_nothing() -> None:
    meter = metered((0, {0: 0}), (1, {0: 1}))
    assert meter.elements(NS_PER_S + STALE_NS + 1) == {}


def test_elements_travel_as_bytes() -> None:
    assert packed({0: 1.0, 2: 0.5}, 4) == bytes([255, 0, 128, 0])


@given(st.lists(st.tuples(st.integers(-(10**10), 10**11), st.integers(-(10**10), 10**12)), max_size=30))
def test_whatever_comes_is_a_part_of_time(samples: list[tuple[int, int]]) -> None:
    """Workers are believed nothing."""
    meter = VmMeter()
    for time_ns, busy_ns in samples:
        meter.note(Sample(time_ns, {0: busy_ns}))
        assert all(0 <= part <= 1 for part in meter.elements(time_ns).values())
        assert 0 <= (meter.sustained(time_ns) or 0) <= 1
