"""Loads computed from busy times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.control.load.meter import NS_PER_S, STALE_NS, Sample, VmMeter, packed


def metered(*samples: tuple[float, dict[int, float]]) -> VmMeter:
    """A meter with samples of (second, busy seconds by element)."""
    meter = VmMeter()
    for second, busy in samples:
        meter.note(Sample(int(second * NS_PER_S), {pe: int(part * NS_PER_S) for pe, part in busy.items()}))
    return meter


def test_load_is_the_busy_share_of_the_last_second() -> None:
    meter = metered((0, {0: 0, 1: 0}), (1, {0: 1.0, 1: 0.0}), (2, {0: 1.25, 1: 0.5}))
    assert meter.elements(2 * NS_PER_S) == {0: 0.25, 1: 0.5}


def test_a_vm_with_few_samples_has_no_sustained_demand() -> None:
    meter = metered((0, {0: 0}), (4, {0: 4}))
    assert meter.sustained(4 * NS_PER_S) is None
    meter.note(Sample(10 * NS_PER_S, {0: 10 * NS_PER_S}))
    assert meter.sustained(10 * NS_PER_S) == 1.0


def test_demand_covers_the_last_seconds_only() -> None:
    meter = metered(*((float(second), {0: min(second, 20.0)}) for second in range(41)))
    assert meter.sustained(40 * NS_PER_S) == 0.0


def test_a_new_worker_resets_the_meter() -> None:
    meter = metered((0, {0: 100}), (1, {0: 101}), (2, {0: 0.5}), (3, {0: 1.0}))
    assert meter.elements(3 * NS_PER_S) == {0: 0.5}
    meter.note(Sample(4 * NS_PER_S, {0: 2 * NS_PER_S, 1: 0}))
    assert meter.elements(4 * NS_PER_S) == {}


def test_elements_without_recent_samples_have_no_load() -> None:
    meter = metered((0, {0: 0}), (1, {0: 1}))
    assert meter.elements(NS_PER_S + STALE_NS + 1) == {}


def test_loads_of_elements_are_encoded_as_bytes() -> None:
    assert packed({0: 1.0, 2: 0.5}, 4) == bytes([255, 0, 128, 0])


@given(st.lists(st.tuples(st.integers(-(10**10), 10**11), st.integers(-(10**10), 10**12)), max_size=30))
def test_any_samples_give_a_load_between_0_and_1(samples: list[tuple[int, int]]) -> None:
    """Samples come from workers, which are not trusted."""
    meter = VmMeter()
    for time_ns, busy_ns in samples:
        meter.note(Sample(time_ns, {0: busy_ns}))
        assert all(0 <= part <= 1 for part in meter.elements(time_ns).values())
        assert 0 <= (meter.sustained(time_ns) or 0) <= 1
