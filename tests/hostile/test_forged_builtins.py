"""Built-in functions with any parameters at all: they are refused, or touch memory of their context alone."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver.arguments import Param, ParamKind
from tests.fakes.guest import open_device
from tests.protocol.guest_host import guest_host

SEED: Final = 20261128
LAUNCHES: Final = 3000
NEWEST: Final = re.compile(r"select\..*|math\.where_.*|.*_b8|.*_c64|.*_c128")
"""Names of functions that are called more often than the others, as these are many."""
ARENA: Final = 32 << 10
"""Bytes in which calls may do what they like: so few that none takes long."""
NUMBERS: Final = (
    0,
    1,
    2,
    3,
    4,
    7,
    16,
    31,
    64,
    100,
    1000,
    -1,
    1 << 22,
    1 << 31,
    (1 << 40) - 1,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
)
FACTORS: Final = (0.0, 1.0, -2.5, float("inf"), float("nan"), 1e308, 5e-324)


def value(rng: random.Random, param: Param, arena: int, strange: int) -> int | float:
    """A value for a parameter; one in `strange` is unlikely to be allowed."""
    is_strange = rng.randrange(strange) == 0
    if param.kind is ParamKind.FLOAT:
        return rng.choice(FACTORS)
    if param.kind is ParamKind.POINTER:
        inside = arena + rng.randrange(ARENA // 8) * 8
        return rng.choice([0, 1, arena + 1, arena - 8, arena + ARENA, 1 << 63]) if is_strange else inside
    number = rng.choice(NUMBERS) if is_strange else rng.randrange(9)
    if param.size == 4:
        number = number & 1 if not is_strange else ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    return number


@pytest.mark.parametrize(
    ("names", "launches"), [(re.compile(""), LAUNCHES), (NEWEST, LAUNCHES // 2)], ids=["all", "newest"]
)
def test_no_parameters_harm_others(names: re.Pattern[str], launches: int, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    done = refused = 0
    state = tmp_path / "state"
    with guest_host(tmp_path) as host, open_device(host.link, state) as dev, open_device(host.link, state) as other:
        functions = [dev.function(one.name) for one in dev.list_functions() if names.match(one.name)]
        before, arena, behind = (one.to_device(np.full(ARENA, 0xA5, np.uint8)) for one in (other, dev, other))
        assert before.address < arena.address < behind.address  # they are neighbours
        for _ in range(launches):
            function, strange = rng.choice(functions), rng.choice((3, 1000))
            values = [value(rng, param, arena.address, strange) for param in function.params]
            try:
                function.launch(1, 1, *values)
                done += 1
            except (vgc.InvalidArgument, vgc.InvalidAddress, vgc.OutOfMemory):
                refused += 1
        assert dev.info().generation == 1
        for untouched in (before, behind):
            assert np.all(untouched.get() == 0xA5)
    assert done > launches // 20
    assert refused > launches // 4


def test_array_that_wraps_around_all_addresses_is_refused(tmp_path: Path) -> None:
    """It ends where it begins, so that it once seemed to take no memory at all."""
    shape, strides = (1, 1, 2, 1 << 24), (0, 0, (1 << 40) - 1, 1 << 40)
    assert sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True)) == (1 << 64) - 1
    with guest_host(tmp_path) as host, open_device(host.link, tmp_path / "state") as dev:
        a, out = dev.to_device(np.ones(8, np.uint8)), dev.empty(2 << 24, np.uint8)
        for name, values in (
            ("math.convert_b8", (a.address, *strides, out.address, 7)),
            ("math.where_b8", (a.address, *strides, a.address, 0, 0, 0, 0, a.address, 0, 0, 0, 0, out.address)),
        ):
            with pytest.raises(vgc.InvalidArgument, match="takes more bytes than there are addresses"):
                dev.function(name).launch(1, 1, *shape, *values)
        assert dev.info().generation == 1
