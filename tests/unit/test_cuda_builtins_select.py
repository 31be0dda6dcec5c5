"""Choosing elements on the CUDA engine, on the software GPU."""

from __future__ import annotations

import pytest

from tests.unit import test_builtins_select as cases
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

test_positions_of_what_is_true = with_values(cases.test_positions_of_what_is_true, pes=[3])
test_items_by_index = with_values(cases.test_items_by_index, pes=[3])
test_index_of_no_item_fails_the_call = cases.test_index_of_no_item_fails_the_call
test_no_items_have_no_index = cases.test_no_items_have_no_index
