"""Video instructions of PTX on the CPU engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.unit.cpu_rig import CompileError, compile_image
from tests.unit.ptx_rig import Case, signed, wrong_results


def video(lanes: int, kind: str, operation: Any, *, add: bool = False, sat: bool = False) -> Any:
    bits = 32 // lanes

    def reference(a: int, b: int, c: int) -> int:
        total, packed = c, 0
        for lane in range(lanes):
            x, y = (value >> lane * bits & ((1 << bits) - 1) for value in (a, b))
            if kind == "s32":
                x, y = signed(x, bits), signed(y, bits)
            value = operation(x, y)
            total += value
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s32" else (0, (1 << bits) - 1)
            value = max(low, min(high, value)) if sat else value
            packed |= (value & ((1 << bits) - 1)) << lane * bits
        return total if add else packed

    return reference


OPERATIONS = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vavrg": lambda x, y: x + y + (x + y >= 0) >> 1,
    "vmin": min,
    "vmax": max,
    "vabsdiff": lambda x, y: abs(x - y),
}


def video_cases() -> Iterator[Case]:
    columns = [(0, 0x80FF7F01, 0x12345678, 0xFFFFFFFF, 0x01020380), (0x7F80FF01, 0xFFFFFFFF, 5), (0, 7)]
    for name, operation in OPERATIONS.items():
        for lanes in (2, 4):
            for kind in ("u32", "s32"):
                for suffix, add, sat in ((".add", True, False), ("", False, False), (".sat", False, True)):
                    text = f"{name}{lanes}.{kind}.{kind}.{kind}{suffix} %0, %1, %2, %3;"
                    yield Case(text, ("u32",) * 4, video(lanes, kind, operation, add=add, sat=sat), columns)


def test_video_instructions() -> None:
    assert wrong_results(list(video_cases())) == []


def part(value: int, name: str, kind: str) -> int:
    """Number in a register or a part of it: b0 to b3, h0, h1."""
    bits = {"b": 8, "h": 16}.get(name[:1], 32)
    value = value >> (int(name[1]) * bits if name else 0) & ((1 << bits) - 1)
    return signed(value, bits) if kind == "s32" else value


def limited(value: int, bits: int, kind: str) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s32" else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def word_reference(
    operation: Any, kinds: tuple[str, str, str], parts: tuple[str, str, str], second: str, *, sat: bool
) -> Any:
    bits = {"b": 8, "h": 16}.get(parts[0][:1], 32)

    def reference(a: int, b: int, c: int) -> int:
        value = operation(part(a, parts[1], kinds[1]), part(b, parts[2], kinds[2]))
        value = limited(value, bits, kinds[0]) if sat else value
        if parts[0]:
            first = int(parts[0][1]) * bits
            return c & ~(((1 << bits) - 1) << first) | (value & ((1 << bits) - 1)) << first
        number = signed if kinds[0] == "s32" else lambda x, _: x & 0xFFFFFFFF
        value, c = number(value, 32), number(c, 32)
        return {"add": value + c, "min": min(value, c), "max": max(value, c), "": value}[second]

    return reference


WORDS = OPERATIONS | {
    "vshl.clamp": lambda x, y: x << min(y, 32),
    "vshl.wrap": lambda x, y: x << y % 32,
    "vshr.clamp": lambda x, y: x >> min(y, 32),
    "vshr.wrap": lambda x, y: x >> y % 32,
    "vset.lt": lambda x, y: int(x < y),
    "vset.ge": lambda x, y: int(x >= y),
}
FORMS = [
    (("", "", ""), "", False),
    (("", "b0", "h1"), "", True),
    (("", "b3", ""), "add", False),
    (("", "h1", "b1"), "min", False),
    (("", "", "b2"), "max", True),
    (("b2", "", "h0"), "", True),
    (("h1", "b1", "b0"), "", False),
]


def word_cases() -> Iterator[Case]:
    columns = [(0, 0x80FF7F01, 0x12345678, 0xFFFFFFFF), (0x7F80FF01, 0xFFFFFFFF, 5, 0x23), (0, 0x87654321)]
    for (name, operation), (parts, second, sat), kind in itertools.product(WORDS.items(), FORMS, ("u32", "s32")):
        mnemonic, _, mode = name.partition(".")
        if mnemonic == "vavrg" or (mnemonic == "vset" and sat):
            continue
        kinds = ("u32" if mnemonic == "vset" else kind, "s32", "u32")
        types = kinds[1:] if mnemonic == "vset" else kinds
        modifiers = [*types, *(["sat"] if sat else []), *([mode] if mode else []), *([second] if second else [])]
        operands = [f"%{n}" + (f".{name}" if name else "") for n, name in enumerate(parts)]
        operands += ["%3"] if second or parts[0] else []
        text = f"{mnemonic}.{'.'.join(modifiers)} {', '.join(operands)};"
        yield Case(text, ("u32",) * 4, word_reference(operation, kinds, parts, second, sat=sat), columns)


def test_video_instructions_of_one_number() -> None:
    assert wrong_results(list(word_cases())) == []


def product(scale: int, *, one: bool, sat: bool, kinds: Sequence[str]) -> Any:
    kind = "s32" if "s32" in kinds else "u32"

    def reference(a: int, b: int, c: int) -> int:
        value = part(a, "h1", kinds[0]) * part(b, "b0", kinds[1]) + part(c, "", kind) + one >> scale
        return limited(value, 32, kind) if sat else value

    return reference


def test_products_of_video_instructions() -> None:
    columns = [(0, 0x80FF7F01, 0x7FFF5678, 0xFFFFFFFF), (0x7F80FF01, 0xFFFFFFFF, 0x7F), (0, 0x7FFFFFFF, 0x87654321)]
    wrong = wrong_results(
        [
            Case(
                f"vmad.s32.{kinds[0]}.{kinds[1]}{'.po' * one}{'.sat' * sat}{scale} %0, %1.h1, %2.b0, %3;",
                ("u32",) * 4,
                product(int(scale[4:] or 0), one=one, sat=sat, kinds=kinds),
                columns,
            )
            for kinds in itertools.product(("u32", "s32"), repeat=2)
            for one, sat, scale in (
                (False, False, ""),
                (True, True, ".shr7"),
                (False, True, ""),
                (True, False, ".shr15"),
            )
        ]
    )
    assert wrong == []


def test_comparisons_of_bytes_and_half_words() -> None:
    columns = [(0x80FF7F01, 0x12345678, 0xFFFFFFFF), (0x7F80FF01, 0xFFFFFFFF, 0x12005678), (0, 7)]
    wrong = wrong_results([
        Case(f"vset{lanes}.{kind}.{kind}.lt{suffix} %0, %1, %2, %3;", ("u32",) * 4,
             video(lanes, kind, lambda x, y: int(x < y), add=bool(suffix)), columns)
        for lanes in (2, 4) for kind in ("u32", "s32") for suffix in ("", ".add")
    ])  # fmt: skip
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vadd.s32.s32.s32 %0.b1, %0, %0;", "a third operand goes with"),
        ("vadd.s32.s32.s32.add %0.b1, %0, %0, %0;", "a third operand goes with"),
        ("vadd.s32.s32.s32 %0, %0, %0, %0;", "a third operand goes with"),
        ("vadd.s32.s32.s32 %0, %0.b4, %0;", r"no operand %0\.b4"),
        ("vadd.s32.s16.s32 %0, %0, %0;", "is not known"),
        ("vshl.u32.u32.u32 %0, %0, %0;", r"expected one of \.clamp, \.wrap"),
        ("vset.u32.u32.nan %0, %0, %0;", r"expected one of \.eq"),
        ("vset.u32.u32.lt.sat %0, %0, %0;", "'.sat' is not known here"),
        ("add.u32 %0.h0, %0, %0;", r"no operand %0\.h0"),
    ],
)
def test_video_instructions_that_do_not_exist_are_refused(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_image(f'__global__ void f(int *x) {{ asm("{text}" : "+r"(x[0])); }}')
