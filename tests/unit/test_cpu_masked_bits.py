"""Mixtures of the bits of two vectors under a mask: LLVM's masked ``vpternlog`` has the wrong table for some of them."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from tests.unit.cpu_rig import rig

THREADS: Final = 128
MIXTURES: Final = {
    "(a & 0x7fff00ffu) | (b & ~0x7fff00ffu)": 0x7FFF00FF,
    "(a & ~0x7fff00ffu) | (b & 0x7fff00ffu)": 0x8000FF00,
    "__float_as_uint(copysignf(__uint_as_float(a), __uint_as_float(b)))": 0x7FFFFFFF,
}
"""Mixtures of the bits of ``a`` and ``b``, and those that are of ``a``."""
CHOICES: Final = {"c > 0.0f ? {mixed} : {kept}": True, "c > 0.0f ? {kept} : {mixed}": False}
"""Choices between a mixture and what it mixes, and whether the condition chooses the mixture."""
CASES: Final = tuple(itertools.product(MIXTURES, "ab", CHOICES))


def kernel(index: int, mixture: str, kept: str, choice: str) -> str:
    value = choice.format(mixed=mixture, kept=kept)
    return (
        f'extern "C" __global__ void k{index}(const float *chosen, const unsigned *first, const unsigned *second, unsigned *out) {{\n'
        "    const int i = threadIdx.x;\n    const float c = chosen[i];\n    const unsigned a = first[i], b = second[i];\n"
        f"    out[i] = {value};\n}}\n"
    )


def test_mixtures_under_masks() -> None:
    chance = np.random.default_rng(5)
    c = chance.normal(size=THREADS).astype(np.float32)
    a, b = (chance.integers(1 << 32, size=THREADS, dtype=np.uint32) for _ in range(2))
    with rig(pes=1) as gpu:
        gpu.load("".join(kernel(index, *case) for index, case in enumerate(CASES)))
        given = [gpu.array(THREADS, values.dtype, values) for values in (c, a, b)]
        out = gpu.array(THREADS, np.uint32)
        wrong = []
        for index, (mixture, kept, choice) in enumerate(CASES):
            gpu.launch(f"k{index}", 1, THREADS, *given, out)
            mixed = (a & np.uint32(MIXTURES[mixture])) | (b & ~np.uint32(MIXTURES[mixture]))
            if not np.array_equal(out, np.where((c > 0) == CHOICES[choice], mixed, a if kept == "a" else b)):
                wrong.append((mixture, kept, choice))
    assert wrong == []
