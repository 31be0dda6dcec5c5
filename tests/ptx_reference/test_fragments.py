"""Matrices between memory and registers: the software GPU and the interpreter move and multiply the same bits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest

from tests.ptx_reference.fragments import Place, kinds, packed, sizes
from tests.ptx_reference.machine import Machine
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.table_rig import HEADER
from tests.ptx_reference.test_matrices import LANES, element, elements
from tests.ptx_reference.types import Type
from tests.unit.cpu_rig import Rig, rig

WIDE: Final = ("m16n16k16", "m32n8k16", "m8n32k16")
HALVES: Final = [f"{d}.{c}" for d in ("f16", "f32") for c in ("f16", "f32")]
PRODUCTS: Final = [
    *((shape, types) for shape in WIDE for types in (*HALVES, "f32.bf16.bf16.f32", "s32.s8.s8.s32", "s32.u8.u8.s32")),
    *((shape, f"s32.{kind}.{kind}.s32.satfinite") for shape in WIDE for kind in ("s8", "u8")),
    ("m16n16k8", "f32.tf32.tf32.f32"),
    ("m8n8k4", "f64.f64.f64.f64"),
    *(("m8n8k32", f"s32.{kind}.{kind}.s32{end}") for kind in ("s4", "u4") for end in ("", ".satfinite")),
    ("m8n8k128", "s32.b1.b1.s32.xor"),
    ("m8n8k128", "s32.b1.b1.s32.and"),
]
LAYOUTS: Final = [("row", "col", "row"), ("col", "row", "col")]
"""Layouts of A, of B, and of C and D."""


@dataclass(frozen=True)
class Case:
    """A product of matrices in memory: the opcode of wmma.mma, and the matrices."""

    opcode: str
    a: Place
    b: Place
    c: Place
    d: Place

    @property
    def matrices(self) -> dict[str, Place]:
        return {"a": self.a, "b": self.b, "c": self.c, "d": self.d}


def cases() -> Iterator[Case]:
    """All products, in turn with one of the layouts; elements of less than a byte have one only."""
    for n, (shape, types) in enumerate(PRODUCTS):
        case = case_of(shape, types, LAYOUTS[n % 2])
        yield case if case.a.kind.bits >= 8 else case_of(shape, types, LAYOUTS[0])


def case_of(shape: str, types: str, layouts: tuple[str, str, str]) -> Case:
    left, right, sums = layouts
    names, ending = types.split("."), ""
    bitwise = f"{names.pop()}.popc." if names[-1] in ("xor", "and") else ""
    if names[-1] == "satfinite":
        ending = f".{names.pop()}"
    opcode = f"wmma.mma.{bitwise}sync.aligned.{left}.{right}.{shape}.{'.'.join(names)}{ending}"
    named = kinds(Opcode(opcode))
    rows, columns, depth = sizes(Opcode(opcode))
    of_a, of_b = (named[1], named[2]) if len(named) == 4 else (Type("f", 16), Type("f", 16))
    return Case(
        opcode,
        Place(rows, depth, of_a, left == "row"),
        Place(depth, columns, of_b, right == "row"),
        Place(rows, columns, named[-1], sums == "row"),
        Place(rows, columns, named[0], sums == "row"),
    )


def stride(place: Place) -> int:
    """Elements from line to line, with some between the lines."""
    return (place.columns if place.by_rows else place.rows) + max(16, 128 // place.kind.bits)


def memory_bits(place: Place) -> int:
    return stride(place) * (place.rows if place.by_rows else place.columns) * place.kind.bits


def registers(letter: str, place: Place) -> list[str]:
    """A and B of f16 have eight registers in all shapes."""
    halves = letter in "ab" and (place.kind.kind, place.kind.bits) == ("f", 16)
    count = 8 if halves else place.elements // LANES // packed(place.kind)
    return [f"{letter}{n}" for n in range(count)]


def kernel(number: int, case: Case) -> str:
    """Kernel ``k<number>(a, b, c, d)`` of a warp, which computes D in memory."""
    shape = "m{}n{}k{}".format(*sizes(Opcode(case.opcode)))
    lines = [f".visible .entry k{number}({', '.join(f'.param .u64 p{letter}' for letter in 'abcd')})\n{{"]
    groups = {letter: registers(letter, place) for letter, place in case.matrices.items()}
    for letter, place in case.matrices.items():
        lines.append(f".reg .b64 at_{letter}; ld.param.u64 at_{letter}, [p{letter}];")
        lines += [f".reg .b{max(32, place.kind.bits)} {name};" for name in groups[letter]]
    for letter in "abc":
        place = case.matrices[letter]
        name = "tf32" if letter in "ab" and "tf32" in case.opcode else f"{place.kind.kind}{place.kind.bits}"
        order = "row" if place.by_rows else "col"
        lines.append(
            f"wmma.load.{letter}.sync.aligned.{order}.{shape}.global.{name} {{{', '.join(groups[letter])}}}, "
            f"[at_{letter}], {stride(place)};"
        )
    lines.append(f"{case.opcode} " + ", ".join(f"{{{', '.join(groups[letter])}}}" for letter in "dabc") + ";")
    order = "row" if case.d.by_rows else "col"
    lines.append(
        f"wmma.store.d.sync.aligned.{order}.{shape}.global.{case.d.kind.kind}{case.d.kind.bits} [at_d], "
        f"{{{', '.join(groups['d'])}}}, {stride(case.d)};"
    )
    return "\n".join([*lines, "ret;\n}\n"])


def contents(chance: random.Random, place: Place) -> bytes:
    """Memory of a matrix, with elements between its lines."""
    count = memory_bits(place) // place.kind.bits
    whole = sum(element(chance, place.kind) << n * place.kind.bits for n in range(count))
    return whole.to_bytes(memory_bits(place) // 8, "little")


def words(raw: bytes, kind: Type) -> list[int]:
    size = max(32, kind.bits) // 8
    return elements([int.from_bytes(raw[n : n + size], "little") for n in range(0, len(raw), size)], kind)


def on_both(gpu: Rig, machine: Machine, number: int, given: list[bytes], size: int) -> tuple[bytes, bytes]:
    """Memory of the last parameter behind a kernel of a warp: the software GPU's, and the interpreter's."""
    out = gpu.array(size, np.uint8)
    gpu.launch(f"k{number}", 1, LANES, *(gpu.array(len(raw), np.uint8, list(raw)) for raw in given), out)
    places = [machine.buffer(raw) for raw in (*given, bytes(size))]
    machine.launch(f"k{number}", (1, 1, 1), (LANES, 1, 1), [place.to_bytes(8, "little") for place in places])
    return out.tobytes(), machine.memory.read(places[-1], size)


@pytest.mark.parametrize("shape", sorted({shape for shape, _ in PRODUCTS}))
def test_wmma(shape: str) -> None:
    chosen = [case for case in cases() if f".{shape}." in case.opcode]
    text = HEADER + "".join(kernel(n, case) for n, case in enumerate(chosen))
    machine = Machine(text)
    wrong = []
    with rig(pes=1) as gpu:
        gpu.load_ptx(text)
        for n, case in enumerate(chosen):
            chance = random.Random(case.opcode)
            given = [contents(chance, place) for place in (case.a, case.b, case.c)]
            found, expected = on_both(gpu, machine, n, given, memory_bits(case.d) // 8)
            if words(found, case.d.kind) != words(expected, case.d.kind):
                wrong.append(case.opcode)
    assert wrong == []


MOVES: Final = [
    *(
        f"{name}.sync.aligned.m8n8.{count}{trans}.shared.b16"
        for name in ("ldmatrix", "stmatrix")
        for count in ("x1", "x2", "x4")
        for trans in ("", ".trans")
    ),
    "movmatrix.sync.aligned.m8n8.trans.b16",
]


def move_kernel(number: int, opcode: str) -> str:
    """Kernel ``k<number>(in, out)`` that moves a matrix through 1024 bytes of shared memory, or between lanes."""
    count = int(Opcode(opcode).one_of("x1", "x2", "x4")[1:] or 1)
    names = ", ".join(f"r{n}" for n in range(count))
    row = "mad.lo.u32 row, lane, 16, start; xor.b32 row, row, 48;"  # rows in another order than lanes
    move = {
        "ldmatrix": f"{row} bar.warp.sync -1; {opcode} {{{names}}}, [row];",
        "stmatrix": f"{row} bar.warp.sync -1; {opcode} [row], {{{names}}}; bar.warp.sync -1; ",
        "movmatrix": f"{opcode} r0, r0;",
    }[Opcode(opcode).name]
    given = [f"ld.global.b32 r{n}, [from+{128 * n}]; st.shared.b32 [own+{128 * n}], r{n};" for n in range(4)]
    reread = [f"ld.shared.b32 r{n}, [own+{128 * n}];" for n in range(4)] if "stmatrix" in opcode else []
    stored = [f"st.global.b32 [to+{128 * n}], r{n};" for n in range(4)]
    return "\n".join(
        [
            f".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n.shared .align 16 .b8 cells[1024];",
            ".reg .b64 from, to; .reg .b32 lane, own, row, start, r<4>;",
            "ld.param.u64 from, [in]; ld.param.u64 to, [out]; mov.u32 lane, %tid.x; mov.u32 start, cells;",
            "mad.wide.u32 from, lane, 4, from; mad.wide.u32 to, lane, 4, to; mad.lo.u32 own, lane, 4, start;",
            *(*given, move, *reread, *stored),
            "ret;\n}\n",
        ]
    )


def test_moves_of_matrices() -> None:
    text = HEADER + "".join(move_kernel(n, opcode) for n, opcode in enumerate(MOVES))
    machine = Machine(text)
    given = random.Random(5).randbytes(512)
    with rig(pes=1) as gpu:
        gpu.load_ptx(text)
        found = [on_both(gpu, machine, n, [given], 512) for n in range(len(MOVES))]
    assert [opcode for opcode, (a, b) in zip(MOVES, found, strict=True) if a != b] == []
    assert all(a != given for a, _ in found)
