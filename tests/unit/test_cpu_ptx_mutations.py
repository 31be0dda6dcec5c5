"""Statements of PTX with random changes: the CPU engine's compiler compiles or refuses them, and does not fail itself."""

from __future__ import annotations

import random
from typing import Final

import pytest

from tests.unit.cpu_rig import CompileError, compile_image

STATEMENTS: Final = (
    "{ .reg .pred p, q; .reg .u32 t<3>; setp.lt.and.s32 p|q, %0, %1, !p; @!p bra done; mov.u32 t1, 7; done: }",
    "ld.global.v2.u32 {%0, _}, [%2+8]; st.shared.u16 [%1], {%3}; atom.global.cas.b32 %0, [%2], %1, 5;",
    "shfl.sync.down.b32 %0, %1, 1, 31, -1; vote.sync.ballot.b32 %0, 1, -1; bar.red.popc.u32 %0, 0, 1;",
    "fma.rn.ftz.f32 %3, %3, 0f3F800000, %3; cvt.rni.s32.f32 %0, %3; cvt.rn.f16x2.f32 %0, %3, %3; mad.lo.cc.u32 %0, %1, 3, 4;",
    "prmt.b32 %0, %1, 0x3210, %1; lop3.b32 %0, %1, %1, %1, 0xE8; mov.b64 %2, {%0, %1}; bfe.s32 %0, %1, 3, 5;",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%1, %1}, {%1}, {%0, %1};",
    "red.global.add.noftz.bf16x2 [%2], %1; redux.sync.min.s32 %0, %1, -1; match.all.sync.b32 %0|_, %1, -1;",
)
MODIFIERS: Final = [
    "add",
    "sub",
    "mul",
    "mad",
    "fma",
    "cvt",
    "mov",
    "ld",
    "st",
    "atom",
    "red",
    "shfl",
    "vote",
    "bar",
    "set",
    "setp",
    "selp",
    "lop3",
    ".u8",
    ".s16",
    ".u32",
    ".s64",
    ".b128",
    ".f16",
    ".f32",
    ".f64",
    ".bf16x2",
    ".pred",
    ".rn",
    ".rz",
    ".sat",
    ".ftz",
    ".lo",
    ".wide",
    ".hi",
    ".cc",
    ".v2",
    ".v4",
    ".shared",
    ".global",
    ".sync",
    ".x4",
    "%0",
    "%1",
    "%2",
    "%3",
    "_",
    "-1",
    "0f00000000",
    "{%0,%1}",
    "[%2]",
    "[%1+4]",
    "p|q",
    ",",
    ";",
    "{",
    "}",
    "[",
    "]",
    "!",
    "@",
    "|",
    "%tid.x",
    "%clock64",
    "32",
    "0x7fffffffffffffff",
]


def mutated(text: str, chance: random.Random) -> str:
    words = text.replace(".", " .").replace(",", " , ").replace(";", " ; ").split(" ")
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(words))
        match chance.randrange(4):
            case 0:
                words[place] = chance.choice(MODIFIERS)
            case 1:
                words.insert(place, chance.choice(MODIFIERS))
            case 2:
                words[place] = ""
            case _:
                other = chance.randrange(len(words))
                words[place], words[other] = words[other], words[place]
    return " ".join(words).replace(" .", ".").replace("{.", "{ .")


def outcome(text: str) -> str:
    """The compiler's errors; empty if it compiles."""
    source = (
        'extern "C" __global__ void f(unsigned *x, unsigned long long l, float f) {\n'
        f'    asm volatile("{{ {text} }}" : "+r"(x[0]), "+r"(x[1]), "+l"(l), "+f"(f) :: "memory");\n    x[2] = l; x[3] = f;\n}}\n'
    )
    try:
        compile_image(source)
    except CompileError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_changed_statements_are_compiled_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(12):
        text = mutated(chance.choice(STATEMENTS), chance)
        log = outcome(text)
        refused += bool(log)
        assert "defect" not in log, text
        assert "internal" not in log, text
        assert not log or "error: " in log, text
    assert refused
