"""Forms of instructions that compute from operands alone, and the edge values that each is applied to."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.ptx_reference.binding import COMPUTING
from tests.ptx_reference.numbers import Format, Number
from tests.ptx_reference.operation import MAKERS, Opcode, Operation
from tests.ptx_reference.types import CARRY, PREDICATE, Type

assert COMPUTING

_CHOICE: Final = re.compile(r"\{([^}]*)\}")
INTEGERS: Final = """
{add,sub}.{u16,s16,u32,s32,u64,s64} {add,sub}.sat.s32 {add,sub}{.cc,c,c.cc}.{u32,s32,u64,s64}
add.{u16x2,s16x2} {min,max}.{u16x2,s16x2,s16x2.relu,s32.relu}
mul.{lo,hi}.{u16,s16,u32,s32,u64,s64} mul.wide.{u16,s16,u32,s32}
mad.{lo,hi}.{u16,s16,u32,s32,u64,s64} mad.wide.{u16,s16,u32,s32} mad.hi.sat.s32
mad.{lo,hi}.cc.{u32,s32,u64,s64} madc.{lo,hi}{,.cc}.{u32,s32,u64,s64}
{mul24,mad24}.{lo,hi}.{u32,s32} mad24.hi.sat.s32 sad.{u16,s16,u32,s32,u64,s64}
{div,rem,min,max}.{u16,s16,u32,s32,u64,s64} {abs,neg}.{s16,s32,s64}
{popc,clz,brev}.{b32,b64} bfind{,.shiftamt}.{u32,s32,u64,s64} fns.b32
bfe.{u32,s32,u64,s64} bfi.{b32,b64} szext.{clamp,wrap}.{u32,s32} bmsk.{clamp,wrap}.b32
shl.{b16,b32,b64} shr.{b16,b32,b64,u16,u32,u64,s16,s32,s64} shf.{l,r}.{clamp,wrap}.b32
{and,or,xor}.{pred,b16,b32,b64} not.{pred,b16,b32,b64} cnot.{b16,b32,b64} lop3.b32 lop3.{and,or}.b32
prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16} dp4a.{u32,s32}.{u32,s32} dp2a.{lo,hi}.{u32,s32}.{u32,s32}
{vadd,vsub,vavrg,vmin,vmax,vabsdiff}{2,4}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat,.add}
"""
FLOATS: Final = """
{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 {add,sub,mul}{,.rn,.rz,.rm,.rp}.f64
fma.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 fma.{rn,rz,rm,rp}.f64 mad.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 mad.{rn,rz,rm,rp}.f64
{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2} {add,sub,mul}{,.rn}.{bf16,bf16x2}
fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2} fma.rn{,.relu}.{bf16,bf16x2}
div.{rn,rz,rm,rp}{,.ftz}.f32 div.{rn,rz,rm,rp}.f64 {rcp,sqrt}.{rn,rz,rm,rp}{,.ftz}.f32 {rcp,sqrt}.{rn,rz,rm,rp}.f64
{abs,neg}{,.ftz}.{f32,f16,f16x2} {abs,neg}.{f64,bf16,bf16x2} copysign.{f32,f64}
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.{f32,f16,f16x2} {min,max}.f64 {min,max}{,.NaN}{,.xorsign.abs}.{bf16,bf16x2}
testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}
"""
COMPARISONS: Final = """
setp.{eq,ne}.{b16,b32,b64} setp.{eq,ne,lt,le,gt,ge}.{u16,u32,u64,s16,s32,s64} setp.{lo,ls,hi,hs}.{u16,u32,u64}
setp.{lt,ge}.{and,or,xor}.{s32,f32,f64}
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.{f32,f16,f16x2}
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{f64,bf16,bf16x2}
set.{eq,ne,lt,le,gt,ge}{,.and,.or,.xor}.{u32,s32,f32}.{s32,u64} set.{lo,hs}.{u32,f32}.u32
set.{eq,neu,lt,geu,num,nan}{,.xor}{,.ftz}.{u32,s32,f32}.f32 set.{eq,neu,lt,geu,num,nan}.{u32,f32}.f64
set.{eq,neu,lt,nan}.{f16,u32}.f16 set.{eq,neu,lt,nan}.{f16x2.f16x2,bf16x2.bf16x2,bf16.bf16}
selp.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64} slct.{b32,u64,f32,f64}.s32 slct{,.ftz}.{b16,s32,f32,f64}.f32
"""
CONVERSIONS: Final = """
cvt{,.sat}.{u8,u16,u32,u64,s8,s16,s32,s64}.{u8,u16,u32,u64,s8,s16,s32,s64}
cvt.{rni,rzi,rmi,rpi}{,.ftz}.{u8,s8,u16,s16,u32,s32,u64,s64}.f32
cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,f64}
cvt.{rni,rzi,rmi,rpi}.{u16,s16,u32,s32,u64,s64}.bf16
cvt.{rn,rz,rm,rp}{,.sat}.{f16,f32,f64}.{u8,s8,u16,s16,u32,s32,u64,s64}
cvt.{rn,rz,rm,rp}.bf16.{u8,s8,u16,s16,u32,s32,u64,s64}
cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32 cvt.{rni,rzi,rmi,rpi}.{f16.f16,f64.f64}
cvt{,.ftz}{,.sat}.f32.f16 cvt.f64.{f16,f32} cvt.ftz.f64.f32 cvt.f32.bf16
cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.{f16.f32,f32.f64} cvt.{rn,rz,rm,rp}.f16.f64 cvt.{rn,rz,rm,rp}.bf16.f64
cvt.{rn,rz}{,.relu}{,.satfinite}.{f16,bf16}.f32 cvt.{rn,rz}{,.relu}{,.satfinite}.{f16x2,bf16x2}.f32
cvt.rna{,.satfinite}.tf32.f32 cvt.{rn,rz}{,.relu}{,.satfinite}.tf32.f32
cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.{f32,f16x2} cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2}
cvt.pack.sat.{u16,s16}.s32 cvt.pack.sat.{u8,s8}.s32.b32
"""
GROUPS: Final = {"integers": INTEGERS, "floats": FLOATS, "comparisons": COMPARISONS, "conversions": CONVERSIONS}


def forms(group: str) -> list[str]:
    """Opcodes of a group, each once."""
    return list(dict.fromkeys(form for pattern in GROUPS[group].split() for form in expanded(pattern)))


def expanded(pattern: str) -> Iterator[str]:
    """Texts of a pattern with ``{a,b}`` for any of several."""
    parts = _CHOICE.split(pattern)
    choices = [part.split(",") if n % 2 else [part] for n, part in enumerate(parts)]
    for chosen in itertools.product(*choices):
        yield "".join(chosen)


def operation(form: str) -> Operation:
    opcode = Opcode(form)
    return MAKERS[opcode.name](opcode)


def integer_edges(bits: int) -> list[int]:
    """Integers at the ends of types, and about powers of two and widths."""
    top = 1 << bits
    values = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 0x1234_5678_9ABC_DEF0, 0x5555_5555_5555_5555]
    values += [
        top - 1,
        top - 2,
        top - 31,
        top // 2,
        top // 2 - 1,
        top // 2 + 1,
        top >> bits // 2,
        (top >> bits // 2) - 1,
    ]
    return list(dict.fromkeys(value % top for value in values))


def float_edges(form: Format) -> list[int]:
    """Bits of zeroes, of subnormal and normal numbers at their ends, of integers and halves, infinities and NaNs."""
    one, least = form.bias << form.mantissa, 1 << form.mantissa
    sizes = [0, 1, 2, least - 1, least, least + 1, one - 1, one, one + 1, one + (least >> 1), form.infinity - 1]
    sizes += [form.infinity, form.infinity | least >> 1, form.infinity | 1, form.nan & form.sign - 1]
    places = (2**7, 2**8, 2**15, 2**16, 2**24, 2**31, 2**32, 2**53, 2**63, 2**64)
    numbers = [Number(False, 2 * place + step, -1) for place in places for step in (-1, 0, 1)]
    numbers += [Number(False, digits, -1) for digits in (1, 3, 5, 255)] + [Number(False, 1, -70), Number(False, 7, -27)]
    sizes += [form.bits(number, "rz") for number in numbers]
    return [bits for size in dict.fromkeys(sizes) for bits in (size, size | form.sign)]


def halfway(narrow: Format, wide: Format) -> list[int]:
    """Bits of numbers of a wide format beside and between neighbours of a narrow one."""
    found = []
    for size in (
        0,
        1,
        (1 << narrow.mantissa) - 1,
        1 << narrow.mantissa,
        narrow.bias << narrow.mantissa,
        narrow.infinity - 1,
    ):
        number = narrow.number(size)
        middle = Number(False, 2 * number.digits + 1, number.exponent - 1)
        bits = wide.bits(middle)
        found += [bits, bits + 1, bits - 1, bits | wide.sign, bits + 1 | wide.sign]
    return found


def edges(kind: Type) -> list[int]:
    """Values of an operand of a type: of pairs, lanes that differ."""
    if kind in {PREDICATE, CARRY}:
        return [0, 1]
    values = float_edges(Type(kind.kind, kind.bits).format) if kind.real else integer_edges(kind.bits)
    if kind.lanes == 1:
        return values
    return [kind.joined([value, values[(n * 7 + 3) % len(values)]]) for n, value in enumerate(values)]


def columns(form: str) -> list[Sequence[int]]:
    """Values of each operand of a form."""
    opcode, found = Opcode(form), operation(form)
    values: list[Sequence[int]] = [edges(kind) for kind in found.sources]
    if opcode.name in ("shl", "shr", "shf", "bfe", "bfi", "szext", "bmsk"):
        amounts = [0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]
        values = [
            amounts if kind.kind == "u" and n > 0 else column
            for n, (kind, column) in enumerate(zip(found.sources, values, strict=True))
        ]
    if opcode.name == "lop3":
        values[3] = (0x96,)
    if opcode.name == "fns":
        values[1:] = [range(34), (0, 1, 2, 5, 2**32 - 1, 2**32 - 3)]
    if opcode.name == "cvt" and "e4m3x2" in form + "e5m2x2" and found.sources[0].kind == "b":
        values = [[a * 256 + b for a, b in zip(range(256), itertools.cycle((3, 0x7F, 0xC4)), strict=False)]]
    if opcode.name == "cvt" and found.results[0].real and found.sources[0].real:
        to, of = found.results[0], found.sources[0]
        narrow, wide = Type(to.kind, to.bits).format, Type(of.kind, of.bits).format
        if narrow.width < wide.width:
            values = [[*column, *halfway(narrow, wide)] for column in values]
    return values


def rows(form: str, most: int, seed: int = 7) -> list[tuple[int, ...]]:
    """Operands of a form: all combinations of its edge values, or as many of them as asked for."""
    given = columns(form)
    total = 1
    for column in given:
        total *= len(column)
    if total <= most:
        return list(itertools.product(*given))
    chance = random.Random(f"{form} {seed}")
    return [tuple(chance.choice(column) for column in given) for _ in range(most)]
