"""The interpreter runs whole kernels: jumps, calls, memory, barriers and operations of a warp."""

from __future__ import annotations

import struct

import pytest

from tests.ptx_reference.machine import Machine
from tests.ptx_reference.threads import ExecutionError

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run(body: str, threads: int, words: int, *, before: str = "") -> list[int]:
    """Words that a kernel writes to ``out``, in a block of some threads."""
    text = f"{HEADER}{before}.visible .entry k(.param .u64 k_out)\n{{\n{body}\n}}\n"
    machine = Machine(text)
    out = machine.buffer(bytes(4 * words))
    machine.launch("k", (1, 1, 1), (threads, 1, 1), [out.to_bytes(8, "little")])
    return list(struct.unpack(f"<{words}I", machine.memory.read(out, 4 * words)))


START = (
    ".reg .b64 a; .reg .b32 t, r, s; .reg .pred p; ld.param.u64 a, [k_out]; mov.u32 t, %tid.x; mad.wide.u32 a, t, 4, a;"
)


def test_loop_with_a_guard() -> None:
    body = f"{START} mov.u32 r, 0;\nagain: add.u32 r, r, t; add.u32 s, s, 1; setp.lt.u32 p, s, 3; @p bra again; st.global.u32 [a], r;"
    assert run(body, 4, 4) == [0, 3, 6, 9]


def test_shared_memory_across_a_barrier() -> None:
    body = f"""{START} .shared .b32 cells[4]; mov.u32 s, cells; mad.lo.u32 r, t, 4, s; st.shared.u32 [r], t; bar.sync 0;
        xor.b32 r, t, 3; mad.lo.u32 r, r, 4, s; ld.shared.u32 r, [r]; st.global.u32 [a], r;"""
    assert run(body, 4, 4) == [3, 2, 1, 0]


def test_recursive_calls() -> None:
    before = """.func (.param .b32 result) sum(.param .b32 n) { .reg .b32 x, y; .reg .pred p; ld.param.u32 x, [n];
        setp.eq.u32 p, x, 0; @p bra done; sub.u32 y, x, 1;
        { .param .b32 given; .param .b32 got; st.param.b32 [given], y; call (got), sum, (given); ld.param.b32 y, [got]; }
        add.u32 x, x, y;\ndone: st.param.b32 [result], x; ret; }\n"""
    body = f"{START} {{ .param .b32 g; .param .b32 r0; st.param.b32 [g], t; call (r0), sum, (g); ld.param.b32 r, [r0]; }} st.global.u32 [a], r;"
    assert run(body, 5, 5, before=before) == [0, 1, 3, 6, 10]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shfl.sync.up.b32 r|p, t, 2, 0, -1; selp.u32 s, 100, 0, p; add.u32 r, r, s;", [0, 1, 100, 101]),
        ("shfl.sync.down.b32 r, t, 3, 31, -1;", [3, 4, 5, 6]),
        ("shfl.sync.bfly.b32 r, t, 1, 31, -1;", [1, 0, 3, 2]),
        ("shfl.sync.idx.b32 r, t, 9, 0x1c03, -1;", [1, 1, 1, 1]),
        ("setp.gt.u32 p, t, 29; vote.sync.ballot.b32 r, p, -1;", [0xC0000000] * 4),
        ("and.b32 s, t, 30; match.any.sync.b32 r, s, -1;", [3, 3, 12, 12]),
        ("redux.sync.add.u32 r, t, -1;", [496] * 4),
        ("bar.red.popc.u32 r, 0, 32, 1;", [32] * 4),
        ("mov.u32 r, %lanemask_lt;", [0, 1, 3, 7]),
    ],
)
def test_operations_of_a_warp(text: str, expected: list[int]) -> None:
    assert run(f"{START} {text} st.global.u32 [a], r;", 32, 32)[:4] == expected


def test_atomic_operations() -> None:
    body = f"""{START} ld.param.u64 a, [k_out]; atom.global.add.u32 r, [a], t; atom.global.inc.u32 r, [a+4], 2;
        red.global.max.s32 [a+8], t; atom.global.cas.b32 r, [a+12], 0, 7;"""
    assert run(body, 5, 4) == [10, 2, 4, 7]


def test_product_of_matrices() -> None:
    """Ones times twos, on top of C: 16 * 2 + 1 in each element."""
    body = f"""{START} .reg .b32 one, two; .reg .f32 c, d<4>; mov.b32 one, 0x3c003c00; mov.b32 two, 0x40004000; mov.f32 c, 0f3F800000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{d0, d1, d2, d3}}, {{one, one, one, one}}, {{two, two}}, {{c, c, c, c}};
        st.global.f32 [a], d3;"""
    assert run(body, 32, 32) == [struct.unpack("<I", struct.pack("<f", 33))[0]] * 32


def test_threads_that_cannot_meet_are_found() -> None:
    with pytest.raises(ExecutionError, match="for ever"):
        run(f"{START} setp.eq.u32 p, t, 0; @p bra.uni other; bar.sync 0;\nother: bar.sync 1;", 2, 2)
