"""Parts of exponential functions in PTX: ex2.approx.ftz, and sums with a direction that are led by a constant."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np
import pytest

from tests.unit.cpu_code import kernel_code, llvm_code
from tests.unit.cpu_rig import Rig, rig
from tests.unit.test_cpu_ptx_floats import FORMATS

SUMS: Final = [(252.0, 12582913.0), (-252.0, 12582913.0), (1.5, -3.0), (1.0, 2.0), (3.0, 5.0), (0.1, 1.0), (-1e6, 3e6)]
"""Constant factors and addends; the addend is more than twice the product, about as large, or smaller."""
MODES: Final = ("rm", "rp", "rz")
COUNT: Final = 4096


def _word(number: float) -> str:
    return f"0f{struct.unpack('<I', struct.pack('<f', number))[0]:08X}"


def _sum(index: int, mode: str) -> str:
    factor, addend = SUMS[index]
    return f"""
extern "C" __global__ void sum_{mode}_{index}(const float *x, float *out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float y;
    asm("{{ .reg .f32 s; cvt.sat.f32.f32 s, %1; fma.{mode}.f32 %0, s, {_word(factor)}, {_word(addend)}; }}"
        : "=f"(y) : "f"(x[i]));
    out[i] = y;
}}
"""


SOURCE: Final = r"""
extern "C" __global__ void power(const float *x, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x[i]));
    out[i] = y;
}
""" + "".join(_sum(index, mode) for index in range(len(SUMS)) for mode in MODES)
SPECIAL: Final = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, 2, -1, 127.99999, 128, -126, -126.00001, -149, 1e-45, -1e-45, 3e38, -3e38],
    np.float32,
)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=1) as made:
        made.load(SOURCE)
        yield made


def test_powers_of_two_are_wrong_by_less_than_a_unit_in_the_last_place(gpu: Rig) -> None:
    x = np.random.default_rng(1).uniform(-130, 129, 1 << 17).astype(np.float32)
    x[: SPECIAL.size] = SPECIAL
    out = gpu.array(x.size, np.float32)
    gpu.launch("power", x.size // 256, 256, gpu.array(x.size, np.float32, x), out)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp2(x.astype(np.longdouble))
    assert np.isnan(out[4])
    assert np.array_equal(np.isinf(out), x >= 128)
    assert np.array_equal(out == 0, x < -126)
    assert not np.signbit(out).any()
    normal = (x >= -126) & (x < 128)
    error = np.abs(out[normal].astype(np.longdouble) - wanted[normal])
    assert np.max(error / np.spacing(wanted[normal].astype(np.float32))) < 1
    whole = normal & (x == np.rint(x))
    assert np.array_equal(out[whole], wanted[whole].astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", range(len(SUMS)))
def test_sums_led_by_a_constant_are_exact(gpu: Rig, index: int, mode: str) -> None:
    random = np.random.default_rng(index)
    x = (random.random(COUNT) * np.exp2(random.integers(-30, 1, COUNT))).astype(np.float32)
    x[: SPECIAL.size] = SPECIAL
    x[100:164] = np.arange(64, dtype=np.uint32).view(np.float32)  # denormal numbers
    x[200:300] = np.arange(100) / np.float32(252)
    x[300:400] = np.nextafter(x[200:300], np.float32(0))
    out = gpu.array(COUNT, np.float32)
    gpu.launch(f"sum_{mode}_{index}", COUNT // 256, 256, gpu.array(COUNT, np.float32, x), out)
    factor, addend = (Fraction(float(np.float32(number))) for number in SUMS[index])
    clamped = [Fraction(float(value)) for value in np.clip(np.nan_to_num(x, nan=0, posinf=1, neginf=0), 0, 1)]
    exact = [value * factor + addend for value in clamped]
    found = out.view(np.uint32).tolist()
    expected = [FORMATS["f32"].bits(value, mode) if value else bits for value, bits in zip(exact, found, strict=True)]
    assert found == expected


def test_whole_parts_take_no_doubles() -> None:
    text = llvm_code(SOURCE)
    for name, has_doubles in (("sum_rm_0", False), ("sum_rz_1", False), ("sum_rp_5", True), ("power", False)):
        assert ("double" in kernel_code(text, name)) is has_doubles, name
