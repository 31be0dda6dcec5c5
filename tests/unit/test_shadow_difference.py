"""Shadow mode's comparison: exact for bytes, within tolerance for floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from guest_driver import errors
from guest_driver.comparison import Sides, find

SHAPES = arrays.array_shapes(max_dims=3, max_side=5)
ANY = arrays.arrays(
    st.one_of(arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.complex_number_dtypes()), SHAPES
)


def exact(first: Any, second: Any, dtype: str) -> Any:
    return find(np.array(first, dtype), np.array(second, dtype), rtol=0, atol=0)


@given(ANY)
def test_equal_arrays_have_no_difference(array: np.ndarray[Any, Any]) -> None:
    """Including infinities and NaNs."""
    assert find(array, array.copy(), rtol=0, atol=0) is None


@given(st.data(), arrays.arrays(arrays.integer_dtypes(endianness="<"), SHAPES))
def test_one_changed_bit_is_found_at_its_place(data: st.DataObject, array: np.ndarray[Any, Any]) -> None:
    place = data.draw(st.integers(0, array.size - 1))
    other = array.copy()
    other.reshape(-1)[place] ^= array.dtype.type(1)
    found = find(array, other, rtol=1, atol=1)
    assert found is not None
    assert (found.count, found.size, found.ulps) == (1, array.size, None)
    assert found.index == np.unravel_index(place, array.shape)
    assert found.values == (array[found.index], other[found.index])


@given(st.floats(-1e38, 1e38), st.integers(1, 1000), st.sampled_from(["float32", "float64"]))
def test_units_in_the_last_place_are_steps_between_floats(start: float, steps: int, dtype: str) -> None:
    first = np.array([start], dtype)
    second = first.copy()
    for _ in range(steps):
        second = np.nextafter(second, -second.dtype.type(np.inf))
    found = find(first, second, rtol=0, atol=0)
    assert found is not None
    assert found.ulps == steps


@given(st.floats(1e-3, 1e3), st.floats(0, 2), st.sampled_from(["float16", "float32", "float64"]))
def test_relative_tolerance_refers_to_the_first_value(value: float, factor: float, dtype: str) -> None:
    first = np.array([value], dtype)
    second = (first.astype(float) * (1 + factor * 0.01)).astype(dtype)
    apart = abs(float(second[0]) - float(first[0]))
    found = find(first, second, rtol=0.01, atol=0)
    assert (found is None) == (apart <= 0.01 * abs(float(first[0])))


def test_relative_tolerance_does_not_refer_to_the_second_value() -> None:
    first, second = np.array([100.0]), np.array([101.0])
    assert find(first, second, rtol=0.00995, atol=0) is not None
    assert find(second, first, rtol=0.00995, atol=0) is None


def test_nan_equals_nan_only() -> None:
    assert exact([np.nan, 1], [np.nan, 1], "float32") is None
    found = exact([np.nan, 1], [1, np.nan], "float32")
    assert (found.count, found.ulps) == (2, None)


@pytest.mark.parametrize("pair", [(np.inf, 1e30), (1e30, np.inf), (np.inf, -np.inf)])
def test_infinity_is_within_no_tolerance(pair: tuple[float, float]) -> None:
    assert find(np.array(pair[:1]), np.array(pair[1:]), rtol=0.5, atol=1) is not None


def test_half_precision_is_compared_in_a_wider_type() -> None:
    """In half precision, the difference and the tolerance would both be infinite."""
    first, second = np.array([6e4], "float16"), np.array([-6e4], "float16")
    assert find(first, second, rtol=0, atol=1.1e5) is not None
    assert find(first, second, rtol=0, atol=1.3e5) is None


def test_complex_numbers_differ_in_either_part() -> None:
    found = exact([1 + 2j, 1 + 2j, 1 + 2j], [1 + 2j, 3 + 2j, 1 + 3j], "complex64")
    assert (found.count, found.index) == (2, (1,))


def test_structures_are_compared_byte_by_byte() -> None:
    found = exact([(1, 2.0), (3, 4.0)], [(1, 2.0), (3, 5.0)], "i4,f4")
    assert (found.count, found.index) == (1, (1,))


def test_no_elements_and_no_dimensions_are_no_special_cases() -> None:
    assert exact([], [], "float32") is None
    assert exact([], [], "int8") is None
    assert exact(3, 4, "int8").index == ()
    assert exact(3, 4, "float64").index == ()


def test_zeros_are_equal_whatever_their_sign() -> None:
    assert exact([0.0], [-0.0], "float64") is None


def test_arrays_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="allowed: equal type and shape"):
        find(np.zeros(3), np.zeros(4), rtol=0, atol=0)


# ---- actions on both sides -------------------------------------------------------------------

SIDES = Sides(("left", "right"))


def fail(error: Exception) -> int:
    raise error


def test_the_same_error_on_both_sides_is_raised_unchanged() -> None:
    error = errors.OutOfMemory("full")
    with pytest.raises(errors.OutOfMemory) as caught:
        SIDES.both("allocation", lambda: fail(error), lambda: fail(errors.OutOfMemory("full too")))
    assert caught.value is error


def test_errors_that_differ_are_a_mismatch_with_both_texts() -> None:
    with pytest.raises(errors.ShadowMismatch) as caught:
        SIDES.both("it", lambda: fail(errors.OutOfMemory("full")), lambda: fail(errors.Timeout("slow")))
    assert str(caught.value) == "it: not the same on both\n  left: full\n  right: slow"


@pytest.mark.parametrize("wrong", [0, 1])
def test_error_of_one_side_is_a_mismatch(wrong: int) -> None:
    acts = [lambda: 1, lambda: 2]
    acts[wrong] = lambda: fail(errors.Timeout("slow"))
    texts = ["no error", "no error"]
    texts[wrong] = "slow"
    with pytest.raises(errors.ShadowMismatch) as caught:
        SIDES.both("it", *acts)
    assert str(caught.value) == f"it: not the same on both\n  left: {texts[0]}\n  right: {texts[1]}"


def test_results_of_both_sides_are_returned() -> None:
    assert SIDES.both("it", lambda: 1, lambda: 2) == (1, 2)
    assert SIDES.both("nothing", lambda: None, lambda: None) == (None, None)


def test_no_result_code_of_the_library_means_a_mismatch() -> None:
    assert type(errors.from_result(-1, "unknown")) is errors.VgcError
