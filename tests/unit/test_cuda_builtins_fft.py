"""Fourier transforms of the CUDA engine, on the software GPU."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.unit import builtins_rig as rig
from tests.unit import test_builtins_transforms as cases
from tests.unit.builtins_rig import Array
from tests.unit.cuda_builtins_rig import cuda_builtins, with_values

__all__ = ["cuda_builtins"]

pytestmark = pytest.mark.usefixtures("cuda_builtins")

LONG: Final = (
    2**12,
    2**13,
    2**14,
    2**15,
    2**16 * 3,
    3**8,
    5**6,
    7**5,
    2**2 * 3 * 5 * 7 * 11,
    2 * 3 * 5 * 7 * 64,
    2**18 - 5,
)
"""Lengths beyond shared memory: with each radix, with an even and an odd number of passes, and with other factors."""

test_complex_transforms_are_those_of_numpy = with_values(cases.test_complex_transforms_are_those_of_numpy, pes=[3])
test_real_transforms_are_those_of_numpy = with_values(cases.test_real_transforms_are_those_of_numpy, pes=[3])
test_inverse_real_transform_ignores_imaginary_parts_that_cannot_be = (
    cases.test_inverse_real_transform_ignores_imaginary_parts_that_cannot_be
)
test_complex_transform_in_place = cases.test_complex_transform_in_place


@pytest.mark.parametrize("dtype", cases.FLOATS)
@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize("inner", [1, 3])
def test_long_lines_in_place(dtype: str, length: int, inner: int) -> None:
    shape = (1, length, inner)
    x: Array = (cases.numbers(shape, dtype) + 1j * cases.numbers((*shape, 1), dtype)[..., 0]).astype(
        cases.COMPLEX[dtype]
    )
    buffer = rig.Buffer(x.tobytes())
    builtin = rig.named(f"fft.c2c_{dtype}")
    block = rig.pack(builtin, {"in": buffer.address, "out": buffer.address} | cases.shape_values(shape))
    rig.check(builtin, block)
    rig.run(builtin, block)
    found = np.frombuffer(buffer.content(), x.dtype).reshape(shape)
    cases.assert_close(found, np.fft.fft2(x.astype(complex), axes=(1, 2)), dtype)


@pytest.mark.parametrize("dtype", cases.FLOATS)
def test_longest_axis(dtype: str) -> None:
    shape = (1, 1 << 22)
    x: Array = cases.numbers((*shape, 2), dtype).view(cases.COMPLEX[dtype])[..., 0]
    values = {"in": x, "out": np.zeros_like(x), "inverse": 1} | cases.shape_values(shape)
    cases.assert_close(rig.call(f"fft.c2c_{dtype}", **values)["out"], np.fft.ifft(x.astype(complex)), dtype)
