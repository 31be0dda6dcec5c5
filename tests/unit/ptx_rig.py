"""Runs single PTX instructions on the CPU engine over columns of operands, as bits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.unit.cpu_rig import rig

LETTERS: Final = {"b": "r", "u": "r", "s": "r", "f": "f"}
EDGES: Final = {
    8: (0, 1, 2, 7, 0x55, 0x7F, 0x80, 0xFE, 0xFF),
    16: (0, 1, 2, 0x7F, 0xFF, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF),
    32: (
        0,
        1,
        2,
        3,
        31,
        32,
        33,
        0x7F,
        0x80,
        0xFF,
        0x12345678,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFE,
        2**32 - 1,
    ),
    64: (0, 1, 2, 31, 63, 64, 2**31, 2**32 - 1, 2**32, 0x123456789ABCDEF0, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1),
}


@dataclass(frozen=True)
class Case:
    """An asm text, the types of its operands (``d`` first), and what it computes."""

    text: str
    types: tuple[str, ...]
    """``u32``, ``s64``, ``b16``, ``f32`` and the like; the first is the result's."""
    reference: Callable[..., int | None]
    """Result's bits from the operands' bits, as integers without sign; None if any result is right."""
    columns: Sequence[Sequence[int]] | None = None
    """Values of each operand in place of the edges of its type."""


def width(name: str) -> int:
    """Bits of a type."""
    return 32 if name.endswith("x2") and "16" in name else int(name.lstrip("bfusoe"))


def signed(value: int, bits: int) -> int:
    """Integer whose two's complement of `bits` bits is `value`."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _letter(name: str) -> tuple[str, str]:
    """Constraint of a type, and its type in C."""
    if name in ("f32", "f64"):
        return ("f", "float") if name == "f32" else ("d", "double")
    return {16: ("h", "unsigned short"), 32: ("r", "unsigned"), 64: ("l", "unsigned long long")}[max(16, width(name))]


def _kernel(index: int, case: Case) -> str:
    letters = [_letter(name) for name in case.types]
    count = len(case.types) - 1
    loads = "".join(
        f"  {kind} x{n}; __builtin_memcpy(&x{n}, &in[{n} * size + i], sizeof x{n});\n"
        for n, (_, kind) in enumerate(letters[1:])
    )
    inputs = ", ".join(f'"{letter}"(x{n})' for n, (letter, _) in enumerate(letters[1:]))
    text = case.text.replace("\n", "\\n")
    return (
        f'extern "C" __global__ void k{index}(int size, const unsigned long long *in, unsigned long long *out) {{\n'
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= size) return;\n{loads}"
        f'  {letters[0][1]} d;\n  asm("{text}" : "={letters[0][0]}"(d){" : " if count else ""}{inputs});\n'
        "  unsigned long long bits = 0;\n  __builtin_memcpy(&bits, &d, sizeof d);\n  out[i] = bits;\n}\n"
    )


def _rows(case: Case, most: int) -> list[tuple[int, ...]]:
    columns = case.columns or [EDGES[width(name)] for name in case.types[1:]]
    rows = list(itertools.islice(itertools.product(*columns), 200_000))
    return rows if len(rows) <= most else random.Random(7).sample(rows, most)


def wrong_results(cases: Sequence[Case], most: int = 1200) -> list[str]:
    """Runs all cases; a line for each that differs from its reference, with the first operands that show it."""
    source = "".join(_kernel(index, case) for index, case in enumerate(cases))
    wrong = []
    with rig(pes=1) as gpu:
        gpu.load(source)
        for index, case in enumerate(cases):
            rows = _rows(case, most)
            size = len(rows)
            given = gpu.array(max(1, size * len(rows[0])), np.uint64)
            given[: size * len(rows[0])] = np.array(rows, dtype=np.uint64).T.reshape(-1)
            result = gpu.array(size, np.uint64)
            gpu.launch(f"k{index}", (size + 127) // 128, 128, np.int32(size), given, result)
            for row, found in zip(rows, result, strict=True):
                expected = case.reference(*row)
                if expected is not None and int(found) != expected & ((1 << max(16, width(case.types[0]))) - 1):
                    operands = ", ".join(hex(value) for value in row)
                    wrong.append(f"{case.text} of {operands}: {int(found):#x}, expected {expected:#x}")
                    break
    return wrong
