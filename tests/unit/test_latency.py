"""Latency classes: the data plane's are those of Python, and quantiles come from counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vhost_backend._dataplane import lib
from virtio_proto.control import latency
from virtio_proto.control.latency import NUM_CLASSES


def test_data_plane_has_as_many_classes() -> None:
    assert lib.VGC_LATENCY_CLASSES == NUM_CLASSES


def test_each_class_ends_where_the_next_begins() -> None:
    for number in range(NUM_CLASSES - 1):
        assert lib.vgc_latency_class(latency.upper_ns(number) - 1) == number
        assert lib.vgc_latency_class(latency.upper_ns(number)) == number + 1
    assert latency.upper_ns(NUM_CLASSES - 1) == 1 << 40
    assert lib.vgc_latency_class(0) == 0
    assert lib.vgc_latency_class((1 << 64) - 1) == NUM_CLASSES - 1


@given(st.integers(1024, (1 << 40) - 1))
def test_end_of_a_class_exceeds_its_latencies_by_a_fourth_at_most(ns: int) -> None:
    assert ns < latency.upper_ns(lib.vgc_latency_class(ns)) <= 1.25 * ns + 256


def test_quantiles_are_the_ends_of_their_classes() -> None:
    counts = [0, 90, 0, 9, 1]
    ends = [latency.upper_ns(number) for number in range(5)]
    assert [latency.quantile_ns(counts, part) for part in (0.0, 0.5, 0.9)] == [ends[1]] * 3
    assert latency.quantile_ns(counts, 0.99) == ends[3]
    assert latency.quantile_ns(counts, 1.0) == ends[4]
    assert latency.quantile_ns([], 0.5) is latency.quantile_ns([0, 0], 0.5) is None


def test_operations_between_two_looks_are_the_difference_until_a_new_worker_counts() -> None:
    assert latency.between([1, 2], [3, 2, 4]) == [2, 0, 4]
    assert latency.between([5, 2], [3, 2, 4]) == [3, 2, 4]
    assert latency.between([5, 2], [3]) == [3]
    assert latency.between([], []) == []
