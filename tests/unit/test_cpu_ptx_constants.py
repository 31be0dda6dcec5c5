"""Constant expressions of PTX, and operations on constants that have no result in C++."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.unit.cpu_rig import rig

ONES: Final = 2**64 - 1

CASES: Final[dict[str, int]] = {
    # signed, unless a number ends in U or is too large for 64 bits with a sign
    "mov.s64 %d, -8 / 2;": -4,
    "mov.s64 %d, -8 % 3;": -2,
    "mov.s64 %d, -8 >> 1;": -4,
    "mov.s64 %d, -8 >> 70;": -1,
    "mov.s64 %d, (-9223372036854775807 - 1) / -1;": 2**63,
    "mov.u64 %d, 18446744073709551615 / 2;": ONES // 2,
    "mov.u64 %d, 0xfffffffffffffff8U >> 1;": 0x7FFFFFFFFFFFFFFC,
    "mov.u64 %d, -2 / 2U;": (ONES - 1) // 2,
    # strength of operators
    "mov.u64 %d, 1 | 1 ^ 1;": 1,
    "mov.u64 %d, 6 & 3 ^ 1;": 3,
    "mov.u64 %d, 1 << 2 + 1;": 8,
    "mov.u64 %d, 2 + 3 * 4 - 5;": 9,
    "mov.u64 %d, 20 - 8 - 4;": 8,
    "mov.u64 %d, ~(3 << 1) & 0xff;": 0xF9,
    # a sum of offsets counts from the left
    "ld.global.u64 %d, [%in - 8 + 16];": 22,
    "ld.global.u64 %d, [%in + 16 - 8];": 22,
    "ld.global.u64 %d, [%in + 2 * 8 + 8];": 44,
    # divisions by a zero that is known when the module is compiled: all bits set
    "div.u32 %r, %n, 0; cvt.u64.u32 %d, %r;": 2**32 - 1,
    "rem.u32 %r, %n, 0; cvt.u64.u32 %d, %r;": 2**32 - 1,
    "mov.u32 %r, 0; div.u32 %r, %n, %r; cvt.u64.u32 %d, %r;": 2**32 - 1,
    "mov.u32 %r, 5; bra L; L: sub.u32 %r, %r, 5; bra M; M: rem.u32 %r, %n, %r; cvt.u64.u32 %d, %r;": 2**32 - 1,
    "div.s64 %d, %in, 0;": ONES,
    "rem.s64 %d, %in, 0;": ONES,
    "div.s32 %r, 7, 0; cvt.u64.u32 %d, %r;": 2**32 - 1,
    # reciprocals in double precision flush subnormal numbers
    "rcp.approx.ftz.f64 %f, 0d0008000000000000; mov.b64 %d, %f;": 0x7FF0000000000000,
    "rcp.approx.ftz.f64 %f, 0d7fe0000000000001; mov.b64 %d, %f;": 0,
    "rsqrt.approx.ftz.f64 %f, 0d0008000000000000; mov.b64 %d, %f;": 0x7FF0000000000000,
    "rcp.rn.f64 %f, 0d7fe0000000000001; mov.b64 %d, %f;": 0x0008000000000000,
}


def module() -> str:
    kernels = [
        f".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n"
        ".reg .b64 %d, %in, %out; .reg .b32 %r, %n; .reg .f64 %f;\n"
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.global.u32 %n, [%in];\n"
        f"{code}\nst.global.u64 [%out], %d; ret;\n}}\n"
        for number, code in enumerate(CASES)
    ]
    return ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(kernels)


@pytest.fixture(scope="module")
def results() -> dict[str, int]:
    with rig(pes=1) as gpu:
        gpu.load_ptx(module())
        given, out = gpu.array(4, np.uint64, np.array([11, 22, 33, 44])), gpu.array(1, np.uint64)
        found = {}
        for number, code in enumerate(CASES):
            out[0] = 0xABCD
            gpu.launch(f"k{number}", 1, 1, given, out)
            found[code] = int(out[0])
        return found


@pytest.mark.parametrize("code", CASES)
def test_result(results: dict[str, int], code: str) -> None:
    assert results[code] == CASES[code] % 2**64
