"""Built-in functions on the CUDA engine, on memory that the VM changes between their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit import test_builtins_races as cases
from tests.unit.builtins_rig import DTYPES
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_sorted_runs_that_change_between_steps_are_merged_in_their_memory = with_values(
    cases.test_sorted_runs_that_change_between_steps_are_merged_in_their_memory, n=[6000]
)
test_positions_of_what_becomes_true_after_it_was_counted_stay_in_their_memory = with_values(
    cases.test_positions_of_what_becomes_true_after_it_was_counted_stay_in_their_memory, n=[300, 5000]
)
test_truth_that_changes_is_found_in_its_memory = with_values(
    cases.test_truth_that_changes_is_found_in_its_memory, n=[2000]
)
test_indices_that_change_name_items_alone = with_values(
    cases.test_indices_that_change_name_items_alone, size=[1, 12], most_bytes=[10_000]
)
test_condition_that_changes_chooses_among_two = with_values(
    cases.test_condition_that_changes_chooses_among_two, n=[2000]
)


@pytest.mark.parametrize("name", ["sort.keys_i32", "sort.keys_f64", "sort.unique_u32", "sort.unique_i64"])
def test_keys_that_change_after_they_were_counted_are_moved_in_their_memory(name: str) -> None:
    """Each pass has a kernel that counts digits, one that adds the counts up, and one that moves keys by them."""
    n = 2500
    keys = np.arange(n).astype(DTYPES[name.rpartition("_")[2]])
    arrays = {"in": keys, "out": keys}
    is_unique = name.startswith("sort.unique")
    if is_unique:
        arrays["count"] = np.zeros(1, np.int64)
    buffers = cases.buffers_of(arrays)
    builtin = rig.named(name)
    block = cases.packed(builtin, buffers, n=n, **({} if is_unique else {"outer": 1}))
    out = cases.inside(buffers["out"], np.uint8)
    steps = []

    def overwrite(step: int) -> None:
        """Has all keys counted as those with the least digits, and moved as those with the largest."""
        steps.append(step)
        out[:] = 0 if step % 3 == 0 else 0xFF

    rig.run(builtin, block, after_step=overwrite)
    assert len(steps) > 3 * keys.dtype.itemsize
    for array, buffer in buffers.items():
        buffer.check(written=array != "in")
