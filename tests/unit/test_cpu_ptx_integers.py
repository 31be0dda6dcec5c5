"""Integer instructions of PTX on the CPU engine, beside a reference in Python over edge values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.unit.ptx_rig import EDGES, Case, signed, width, wrong_results

WORD: Final = (1 << 32) - 1
BYTES: Final = (0, 1, 5, 8, 31, 32, 33, 63, 64, 100, 255, 256, 257)


def to_signed(name: str, value: int) -> int:
    """Value of bits of a type: with its sign if it has one."""
    return signed(value, width(name)) if name[0] == "s" else value


def arithmetic() -> Iterator[Case]:
    for name in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits = width(name)
        three, four = (name,) * 3, (name,) * 4

        def high(a: int, b: int, name: str = name, bits: int = bits) -> int:
            return (to_signed(name, a) * to_signed(name, b) >> bits) & ((1 << bits) - 1)

        yield Case(f"add.{name} %0, %1, %2;", three, lambda a, b: a + b)
        yield Case(f"sub.{name} %0, %1, %2;", three, lambda a, b: a - b)
        yield Case(f"mul.lo.{name} %0, %1, %2;", three, lambda a, b: a * b)
        yield Case(f"mul.hi.{name} %0, %1, %2;", three, high)
        yield Case(f"mad.lo.{name} %0, %1, %2, %3;", four, lambda a, b, c: a * b + c)
        yield Case(f"mad.hi.{name} %0, %1, %2, %3;", four, lambda a, b, c, high=high: high(a, b) + c)
        yield Case(
            f"sad.{name} %0, %1, %2, %3;",
            four,
            lambda a, b, c, name=name: abs(to_signed(name, a) - to_signed(name, b)) + c,
        )
        for least in (True, False):

            def pick(a: int, b: int, name: str = name, least: bool = least) -> int:
                return (min if least else max)(to_signed(name, a), to_signed(name, b))

            yield Case(f"{'min' if least else 'max'}.{name} %0, %1, %2;", three, pick)
        yield Case(f"div.{name} %0, %1, %2;", three, division(name, remainder=False), nonzero(name))
        yield Case(f"rem.{name} %0, %1, %2;", three, division(name, remainder=True), nonzero(name))
        if name[0] == "s":
            yield Case(f"abs.{name} %0, %1;", (name,) * 2, lambda a, bits=bits: abs(signed(a, bits)))
            yield Case(f"neg.{name} %0, %1;", (name,) * 2, lambda a: -a)
    for narrow, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield Case(
            f"mul.wide.{narrow} %0, %1, %2;",
            (wide, narrow, narrow),
            lambda a, b, name=narrow: to_signed(name, a) * to_signed(name, b),
        )
        yield Case(
            f"mad.wide.{narrow} %0, %1, %2, %3;",
            (wide, narrow, narrow, wide),
            lambda a, b, c, name=narrow: to_signed(name, a) * to_signed(name, b) + c,
        )


def nonzero(name: str) -> list[tuple[int, ...]]:
    """Operands of a division: nothing is divided by 0, which is a fault of the engine."""
    edges = EDGES[width(name)]
    return [edges, tuple(value for value in edges if value)]


def division(name: str, *, remainder: bool) -> Callable[[int, int], int]:
    """Division that rounds to zero."""

    def divide(a: int, b: int) -> int:
        left, right = to_signed(name, a), to_signed(name, b)
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return left - quotient * right if remainder else quotient

    return divide


def saturated(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, value))


def parts24(name: str, a: int, b: int) -> int:
    return signed(a, 24) * signed(b, 24) if name[0] == "s" else (a & 0xFFFFFF) * (b & 0xFFFFFF)


def special_arithmetic() -> Iterator[Case]:
    three, four = ("s32",) * 3, ("s32",) * 4
    yield Case("add.sat.s32 %0, %1, %2;", three, lambda a, b: saturated(signed(a, 32) + signed(b, 32)))
    yield Case("sub.sat.s32 %0, %1, %2;", three, lambda a, b: saturated(signed(a, 32) - signed(b, 32)))
    yield Case(
        "mad.hi.sat.s32 %0, %1, %2, %3;",
        four,
        lambda a, b, c: saturated((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32)),
    )
    for name in ("u32", "s32"):
        yield Case(f"mul24.lo.{name} %0, %1, %2;", (name,) * 3, lambda a, b, name=name: parts24(name, a, b))
        yield Case(f"mul24.hi.{name} %0, %1, %2;", (name,) * 3, lambda a, b, name=name: parts24(name, a, b) >> 16)
        yield Case(f"mad24.lo.{name} %0, %1, %2, %3;", (name,) * 4, lambda a, b, c, name=name: parts24(name, a, b) + c)
    yield Case("add.sat.u32 %0, %1, %2;", ("u32",) * 3, lambda a, b: min(WORD, a + b))
    yield Case(
        "sub.sat.s16x2 %0, %1, %2;",
        ("b32",) * 3,
        lambda a, b: by_halves(a, b, lambda x, y: max(-32768, min(32767, signed(x, 16) - signed(y, 16)))),
    )
    yield Case("add.u16x2 %0, %1, %2;", ("b32",) * 3, lambda a, b: by_halves(a, b, lambda x, y: x + y))
    yield Case(
        "min.s16x2 %0, %1, %2;",
        ("b32",) * 3,
        lambda a, b: by_halves(a, b, lambda x, y: min(signed(x, 16), signed(y, 16))),
    )
    for left in ("u32", "s32"):
        for right in ("u32", "s32"):
            yield Case(
                f"dp4a.{left}.{right} %0, %1, %2, %3;",
                (left,) * 4,
                lambda a, b, c, left=left, right=right: c + dot(a, b, (left, right), 8, range(4)),
            )
            for half, lanes in (("lo", range(2)), ("hi", range(2, 4))):
                yield Case(
                    f"dp2a.{half}.{left}.{right} %0, %1, %2, %3;",
                    (left,) * 4,
                    lambda a, b, c, left=left, right=right, lanes=lanes: c + dot(a, b, (left, right), 16, lanes),
                )


def by_halves(a: int, b: int, operation: Callable[[int, int], int]) -> int:
    low = operation(a & 0xFFFF, b & 0xFFFF) & 0xFFFF
    return low | (operation(a >> 16, b >> 16) & 0xFFFF) << 16


def dot(a: int, b: int, types: tuple[str, str], bits: int, lanes: range) -> int:
    left, right = types
    total = 0
    for place, lane in enumerate(lanes):
        x, y = a >> bits * place & ((1 << bits) - 1), b >> 8 * lane & 255
        total += (signed(x, bits) if left[0] == "s" else x) * (signed(y, 8) if right[0] == "s" else y)
    return total


def carries() -> Iterator[Case]:
    """Sums and products of 64 bits from pieces of 32."""
    wide = ("u64",) * 3

    def text(low: str, high: str) -> str:
        return (
            "{ .reg .u32 a<3>, b<3>;\n mov.b64 {a0, a1}, %1;\n mov.b64 {b0, b1}, %2;\n "
            f"{low} a2, a0, b0;\n {high} b2, a1, b1;\n mov.b64 %0, {{a2, b2}}; }}"
        )

    yield Case(text("add.cc.u32", "addc.u32"), wide, lambda a, b: a + b)
    yield Case(text("sub.cc.u32", "subc.u32"), wide, lambda a, b: a - b)
    yield Case(text("add.cc.u32", "addc.cc.u32"), wide, lambda a, b: a + b)
    for last in ("add", "sub"):
        yield Case(
            f"{{ .reg .u64 t; {last}.cc.u64 t, %1, %2; {last}c.u64 %0, 0, 0; }}",
            wide,
            (lambda a, b: a + b >> 64) if last == "add" else (lambda a, b: -(a < b)),
        )
    yield Case(
        "{ .reg .u32 l, h; mad.lo.cc.u32 l, %1, %1, %2; madc.hi.u32 h, %1, %1, 0; mov.b64 %0, {l, h}; }",
        ("u64", "u32", "u32"),
        lambda a, b: a * a + b,
    )
    yield Case(
        "{ .reg .u32 l, h, c; mad.lo.cc.u32 l, %1, %1, %2; madc.hi.cc.u32 h, %1, %1, %2; addc.u32 c, 0, 0; "
        "mov.b64 %0, {h, c}; }",
        ("u64", "u32", "u32"),
        lambda a, b: (a * a + b + (b << 32)) >> 32,
    )


def field(bits: int, is_signed: bool) -> Callable[[int, int, int], int]:
    """Extracts a field, as the PTX ISA writes it."""

    def extract(a: int, b: int, c: int) -> int:
        last, place, length = bits - 1, b & 255, c & 255
        sign = a >> min(place + length - 1, last) & 1 if is_signed and length else 0
        return sum((a >> (place + i) & 1 if i < length and place + i <= last else sign) << i for i in range(bits))

    return extract


def inserted(bits: int) -> Callable[[int, int, int, int], int]:
    def insert(a: int, b: int, c: int, d: int) -> int:
        result, place = b, c & 255
        for i in range(d & 255):
            if place + i < bits:
                result = result & ~(1 << place + i) | (a >> i & 1) << place + i
        return result

    return insert


def highest(name: str, *, shift: bool) -> Callable[[int], int]:
    def find(a: int) -> int:
        bits = width(name)
        if name[0] == "s" and a >> (bits - 1):
            a = ~a & ((1 << bits) - 1)
        if not a:
            return WORD
        return bits - a.bit_length() if shift else a.bit_length() - 1

    return find


def nth_set(mask: int, base: int, offset: int) -> int:
    offset = signed(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else WORD
    place, left, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= place < 32:
        if mask >> place & 1:
            if not left:
                return place
            left -= 1
        place += step
    return WORD


def permuted(mode: str) -> Callable[[int, int, int], int]:
    """Byte permutation in its modes: number of the byte for each place."""

    def permute(a: int, b: int, c: int) -> int:
        source, result, s = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")], 0, c & 3
        for place in range(4):
            nibble = c >> 4 * place & 15
            number = {
                "": nibble & 7,
                ".f4e": s + place,
                ".b4e": (s - place) % 8,
                ".rc8": s,
                ".ecl": max(s, place),
                ".ecr": min(s, place),
                ".rc16": (s & 1) * 2 + place % 2,
            }[mode]
            byte = source[number]
            if not mode and nibble & 8:
                byte = 255 if byte >> 7 else 0
            result |= byte << 8 * place
        return result

    return permute


def looked_up(table: int) -> Callable[[int, int, int], int]:
    return lambda a, b, c: sum(
        (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
    )


def extended(mode: str, name: str) -> Callable[[int, int], int]:
    def extend(a: int, b: int) -> int:
        size = b if mode == "clamp" else b & 31
        if size >= 32:
            return a
        low = a & ((1 << size) - 1)
        return low | (WORD << size & WORD if name == "s32" and size and a >> (size - 1) & 1 else 0)

    return extend


def bit_mask(mode: str) -> Callable[[int, int], int]:
    def make(a: int, b: int) -> int:
        if mode == "wrap":
            a, b = a & 31, b & 31
        return 0 if a > 31 else ((1 << min(b, 32)) - 1) << a & WORD

    return make


def bits_and_bytes() -> Iterator[Case]:
    for bits in (16, 32, 64):
        name = f"b{bits}"
        yield Case(f"and.{name} %0, %1, %2;", (name,) * 3, lambda a, b: a & b)
        yield Case(f"or.{name} %0, %1, %2;", (name,) * 3, lambda a, b: a | b)
        yield Case(f"xor.{name} %0, %1, %2;", (name,) * 3, lambda a, b: a ^ b)
        yield Case(f"not.{name} %0, %1;", (name,) * 2, lambda a: ~a)
        yield Case(f"cnot.{name} %0, %1;", (name,) * 2, lambda a: int(a == 0))
        yield Case(f"shl.{name} %0, %1, %2;", (name, name, "u32"), lambda a, b, bits=bits: a << b if b < bits else 0)
        yield Case(f"shr.u{bits} %0, %1, %2;", (name, name, "u32"), lambda a, b, bits=bits: a >> b if b < bits else 0)
        yield Case(
            f"shr.s{bits} %0, %1, %2;",
            (name, name, "u32"),
            lambda a, b, bits=bits: signed(a, bits) >> min(b, bits - 1),
        )
    for bits in (32, 64):
        for name in (f"u{bits}", f"s{bits}"):
            columns = [EDGES[bits], BYTES, BYTES]
            yield Case(f"bfe.{name} %0, %1, %2, %3;", (name, name, "u32", "u32"), field(bits, name[0] == "s"), columns)
            yield Case(f"bfind.{name} %0, %1;", ("u32", name), highest(name, shift=False))
            yield Case(f"bfind.shiftamt.{name} %0, %1;", ("u32", name), highest(name, shift=True))
        name = f"b{bits}"
        columns = [EDGES[bits], EDGES[bits], BYTES, BYTES]
        yield Case(f"bfi.{name} %0, %1, %2, %3, %4;", (name, name, name, "u32", "u32"), inserted(bits), columns)
        yield Case(f"popc.{name} %0, %1;", ("u32", name), int.bit_count)
        yield Case(f"clz.{name} %0, %1;", ("u32", name), lambda a, bits=bits: bits - a.bit_length())
        yield Case(f"brev.{name} %0, %1;", (name, name), lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2))
    for mode in ("wrap", "clamp"):
        for side in ("l", "r"):

            def funnel(a: int, b: int, c: int, mode: str = mode, side: str = side) -> int:
                count = c & 31 if mode == "wrap" else min(c, 32)
                return (b << 32 | a) << count >> 32 if side == "l" else (b << 32 | a) >> count

            yield Case(f"shf.{side}.{mode}.b32 %0, %1, %2, %3;", ("b32",) * 4, funnel)
        for name in ("u32", "s32"):
            yield Case(f"szext.{mode}.{name} %0, %1, %2;", (name,) * 3, extended(mode, name))
        yield Case(f"bmsk.{mode}.b32 %0, %1, %2;", ("b32",) * 3, bit_mask(mode))
    for table in (0, 0x1F, 0x96, 0xE8, 0xFF):
        yield Case(f"lop3.b32 %0, %1, %2, %3, {table:#x};", ("b32",) * 4, looked_up(table))
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        selectors = (0, 1, 2, 3, 0x3210, 0x7654, 0x8888, 0xF0B4, 0x5410, WORD)
        yield Case(
            f"prmt.b32{mode} %0, %1, %2, %3;",
            ("b32",) * 4,
            permuted(mode),
            [(0x04030201, 0x80FF7F00), (0xA5C3810F, 0x08070605), selectors],
        )
    yield Case(
        "fns.b32 %0, %1, %2, %3;",
        ("b32",) * 4,
        nth_set,
        [EDGES[32], (0, 1, 7, 30, 31), (0, 1, 2, 5, 32, WORD, WORD - 1, WORD - 30)],
    )


COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED: Final = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def comparisons() -> Iterator[Case]:
    for name in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for comparison, holds in COMPARISONS.items():

            def compare(a: int, b: int, name: str = name, holds: Callable[[int, int], bool] = holds) -> bool:
                return holds(to_signed(name, a), to_signed(name, b))

            yield Case(
                f"{{ .reg .pred p, q; setp.{comparison}.{name} p|q, %1, %2; selp.u32 %0, 2, 0, p; @q add.u32 %0, %0, 1; }}",
                ("u32", name, name),
                lambda a, b, compare=compare: 2 if compare(a, b) else 1,
            )
            yield Case(
                f"set.{comparison}.u32.{name} %0, %1, %2;",
                ("u32", name, name),
                lambda a, b, compare=compare: WORD if compare(a, b) else 0,
            )
    for unsigned, comparison in UNSIGNED.items():
        yield Case(
            f"set.{unsigned}.u32.u32 %0, %1, %2;",
            ("u32",) * 3,
            lambda a, b, holds=COMPARISONS[comparison]: WORD if holds(a, b) else 0,
        )
    for operation, combine in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        yield Case(
            "{ .reg .pred p, c; setp.ne.u32 c, %3, 0; "
            f"setp.lt.{operation}.s32 p, %1, %2, !c; selp.b32 %0, 1, 0, p; }}",
            ("u32", "s32", "s32", "u32"),
            lambda a, b, c, combine=combine: combine(int(signed(a, 32) < signed(b, 32)), int(c == 0)),
        )
    yield Case("slct.u32.s32 %0, %1, %2, %3;", ("u32",) * 4, lambda a, b, c: a if signed(c, 32) >= 0 else b)
    yield Case(
        "{ .reg .pred p, q; setp.gt.u32 q, %3, 7; lop3.or.b32 %0|p, %1, %2, %3, 0x80, q; @p add.u32 %0, %0, 1; }",
        ("b32",) * 4,
        lambda a, b, c: (a & b & c) + ((a & b & c) != 0 or c > 7),
    )


def conversions() -> Iterator[Case]:
    for to in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        for of in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
            low = -(1 << width(to) - 1) if to[0] == "s" else 0
            high = (1 << width(to) - (to[0] == "s")) - 1

            def convert(a: int, to: str = to, of: str = of) -> int:
                value = to_signed(of, a)
                return signed(value, width(to)) if to[0] == "s" else value & ((1 << width(to)) - 1)

            yield Case(f"cvt.{to}.{of} %0, %1;", (to, of), convert)
            yield Case(
                f"cvt.sat.{to}.{of} %0, %1;",
                (to, of),
                lambda a, of=of, low=low, high=high: max(low, min(high, to_signed(of, a))),
            )
    for to in ("u16", "s16", "u8", "s8"):
        bits = width(to)

        def pack(a: int, b: int, to: str = to, bits: int = bits) -> int:
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
            clamped = [max(low, min(high, signed(value, 32))) & ((1 << bits) - 1) for value in (a, b)]
            return clamped[0] << bits | clamped[1]

        if bits == 16:
            yield Case(f"cvt.pack.sat.{to}.s32 %0, %1, %2;", ("b32",) * 3, pack)
        else:
            yield Case(
                f"cvt.pack.sat.{to}.s32.b32 %0, %1, %2, %3;",
                ("b32",) * 4,
                lambda a, b, c, pack=pack: pack(a, b) | c << 16,
            )
    yield Case("mov.b32 %0, {%1, %2};", ("b32", "b16", "b16"), lambda a, b: a | b << 16)
    yield Case(
        "{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }", ("b32", "b32"), lambda a: a >> 16 | a << 16
    )
    yield Case("{ .reg .b32 h; mov.b64 {_, h}, %1; mov.b32 %0, h; }", ("b32", "b64"), lambda a: a >> 32)


def test_arithmetic() -> None:
    assert wrong_results(list(arithmetic())) == []


def test_saturation_products_of_24_bits_halves_and_dot_products() -> None:
    assert wrong_results(list(special_arithmetic())) == []


def test_carries() -> None:
    assert wrong_results(list(carries())) == []


def test_bits() -> None:
    assert wrong_results(list(bits_and_bytes())) == []


def test_comparisons() -> None:
    assert wrong_results(list(comparisons())) == []


def test_conversions_of_integers() -> None:
    assert wrong_results(list(conversions())) == []
