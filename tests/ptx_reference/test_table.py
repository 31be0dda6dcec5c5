"""Forms of instructions on the software GPU give the bits of the reference, over edge values of their operands."""

from __future__ import annotations

import pytest

from tests.ptx_reference.table import GROUPS, forms
from tests.ptx_reference.table_rig import wrong_results

ROWS = 120
"""Rows of operands of each form."""


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_bits_are_those_of_the_reference(group: str) -> None:
    assert wrong_results(forms(group), ROWS) == []
