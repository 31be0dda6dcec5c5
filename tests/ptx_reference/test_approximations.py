"""Approximations stay within the bounds of the ISA: here within two units in the last place of the exact result, which is
tighter than each of them (2 for div, 1 for rcp, relative 2^-22 for ex2, lg2, rsqrt, sqrt, 2^-11 for tanh, absolute 2^-20.5
for sin and cos within a period).
"""

from __future__ import annotations

import random

from tests.ptx_reference.numbers import FORMATS
from tests.ptx_reference.table import expanded, operation, rows
from tests.ptx_reference.table_rig import HEADER, Applied, kernel, results_of
from tests.unit.cpu_rig import rig

PATTERNS = (
    "{rcp,sqrt,rsqrt,lg2,ex2}.approx{,.ftz}.f32",
    "{sin,cos}.approx{,.ftz}.f32",
    "tanh.approx.f32",
    "div.{approx,full}{,.ftz}.f32",
)
SINGLE = FORMATS["f32"]
MOST_UNITS = {"rcp": 1}


def given(form: str) -> list[tuple[int, ...]]:
    """Edge values, and numbers of all sizes; for sin and cos those of a period only, for which the ISA has a bound."""
    chance = random.Random(form)
    count = len(operation(form).sources)
    numbers = [*rows(form, 300), *(tuple(chance.getrandbits(32) for _ in range(count)) for _ in range(600))]
    if form[:3] in {"sin", "cos"}:
        return [row for row in numbers if row[0] & 0x7FFFFFFF <= 0x40C90FDB or row[0] & 0x7FFFFFFF >= SINGLE.infinity]
    return numbers


def place(bits: int) -> int:
    """Number of a float in the order of all floats."""
    return -(bits & 0x7FFFFFFF) if bits >> 31 else bits


def units(found: int, expected: int) -> int:
    if SINGLE.is_nan(found) or SINGLE.is_nan(expected):
        return 0 if SINGLE.is_nan(found) == SINGLE.is_nan(expected) else 1 << 32
    return abs(place(found) - place(expected))


def test_approximations_are_within_two_units() -> None:
    applied = [Applied(form, given(form)) for pattern in PATTERNS for form in expanded(pattern)]
    wrong = []
    with rig(pes=1) as gpu:
        gpu.load_ptx(HEADER + "".join(kernel(n, one) for n, one in enumerate(applied)))
        for n, one in enumerate(applied):
            for row, (found,) in zip(one.rows, results_of(gpu, n, one), strict=True):
                (expected,) = one.operation(*row)
                if units(found, expected) > MOST_UNITS.get(one.form[:3], 2):
                    wrong.append(f"{one.form} of {[*map(hex, row)]}: {found:#x}, exact {expected:#x}")
                    break
    assert wrong == []
