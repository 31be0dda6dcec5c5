"""Products of matrices: the software GPU and the interpreter compute the same bits, for all shapes and types."""

from __future__ import annotations

import random
from typing import Final

import numpy as np
import pytest

from tests.ptx_reference.machine import Machine
from tests.ptx_reference.matrices import Shape, shape_of
from tests.ptx_reference.operation import Opcode
from tests.ptx_reference.table_rig import HEADER
from tests.ptx_reference.types import Type
from tests.unit.cpu_rig import rig

LANES: Final = 32
BYTES: Final = [f"s32.{a}8.{b}8.s32" for a in "su" for b in "su"]
NIBBLES: Final = [f"s32.{a}4.{b}4.s32" for a in "su" for b in "su"]
TYPES: Final = {
    "m16n8k4": ["f32.tf32.tf32.f32", "f64.f64.f64.f64"],
    "m16n8k8": [
        *("f32.tf32.tf32.f32", "f32.bf16.bf16.f32", "f32.f16.f16.f32"),
        *("f16.f16.f16.f16", "f64.f64.f64.f64"),
    ],
    "m16n8k16": ["f32.bf16.bf16.f32", "f32.f16.f16.f32", "f16.f16.f16.f16", "f64.f64.f64.f64", *BYTES],
    "m8n8k4": ["f64.f64.f64.f64"],
    "m8n8k16": BYTES,
    "m8n8k32": NIBBLES,
    "m16n8k32": [*BYTES, *NIBBLES],
    "m16n8k64": NIBBLES,
    **{shape: ["s32.b1.b1.s32"] for shape in ("m8n8k128", "m16n8k128", "m16n8k256")},
}


def opcodes(shape: str) -> list[str]:
    """All forms of mma of a shape."""
    found = []
    for types in TYPES[shape]:
        if "b1" in types:
            found += [f"mma.sync.aligned.{shape}.row.col.{types}.{way}.popc" for way in ("xor", "and")]
        else:
            found.append(f"mma.sync.aligned.{shape}.row.col.{types}")
        if types in BYTES or types in NIBBLES:
            found.append(f"mma.sync.aligned.{shape}.row.col.satfinite.{types}")
    return found


def groups(shape: Shape) -> tuple[list[int], int]:
    """Registers of A, B and C (or D) of a lane, and bits of one of C."""
    width = max(32, shape.left.bits)
    rows = [shape.rows, 8]
    operands = [count * shape.depth * shape.left.bits // width // LANES for count in rows]
    return [*operands, shape.rows * 8 * shape.result.bits // max(32, shape.result.bits) // LANES], max(
        32, shape.result.bits
    )


def kernel(number: int, opcode: str) -> str:
    """Kernel ``k<number>(in, out)`` of a warp: register n of a lane at ``in[(32 n + lane) * 8]``, results likewise."""
    counts, width = groups(shape_of(Opcode(opcode)))
    widths = [max(32, shape_of(Opcode(opcode)).left.bits)] * 2 + [width]
    lines = [
        f".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n.reg .b64 from, to; .reg .b32 lane;",
        "ld.param.u64 from, [in]; ld.param.u64 to, [out]; mov.u32 lane, %tid.x;",
        "mad.wide.u32 from, lane, 8, from; mad.wide.u32 to, lane, 8, to;",
    ]
    named = []
    place = 0
    for letter, count, bits in zip("abc", counts, widths, strict=True):
        names = [f"{letter}{n}" for n in range(count)]
        lines += [
            f".reg .b{bits} {name}; ld.global.b{bits} {name}, [from+{256 * (place + n)}];"
            for n, name in enumerate(names)
        ]
        place += count
        named.append("{" + ", ".join(names) + "}")
    results = [f"d{n}" for n in range(counts[2])]
    lines += [f".reg .b{width} {name};" for name in results]
    lines.append(f"{opcode} {{{', '.join(results)}}}, {', '.join(named)};")
    lines += [f"st.global.b{width} [to+{256 * n}], {name};" for n, name in enumerate(results)]
    return "\n".join([*lines, "ret;\n}\n"])


def element(chance: random.Random, kind: Type) -> int:
    """Bits of a random element: of floats, mostly ones whose products and sums need rounding, and all kinds."""
    if not kind.real:
        return chance.getrandbits(kind.bits)
    if chance.random() < 0.02:
        infinity = kind.format.infinity
        return chance.choice((0, kind.format.sign, 1, infinity, infinity | kind.format.sign, kind.format.nan))
    spread = chance.choice((2, 2, 6))
    field = kind.format.bias + chance.randrange(-spread, spread)
    return (
        chance.getrandbits(1) << kind.bits - 1
        | field << kind.format.mantissa
        | chance.getrandbits(kind.format.mantissa)
    )


def register(chance: random.Random, kind: Type, width: int) -> int:
    return sum(element(chance, kind) << place for place in range(0, width, kind.bits))


def inputs(chance: random.Random, shape: Shape) -> list[int]:
    counts, _width = groups(shape)
    kinds = [shape.left, shape.right, shape.result]
    return [
        register(chance, kind, max(32, kind.bits))
        for kind, count in zip(kinds, counts, strict=True)
        for _ in range(LANES * count)
    ]


def elements(words: list[int], kind: Type) -> list[int]:
    """Elements of registers, those that are no numbers as one."""
    parts = [word >> place & kind.mask for word in words for place in range(0, max(32, kind.bits), kind.bits)]
    return [kind.format.nan if kind.real and kind.format.is_nan(part) else part for part in parts]


@pytest.mark.parametrize("shape", TYPES)
def test_products_of_the_software_gpu_and_the_interpreter(shape: str) -> None:
    forms = opcodes(shape)
    text = HEADER + "".join(kernel(n, form) for n, form in enumerate(forms))
    machine = Machine(text)
    wrong = []
    with rig(pes=1) as gpu:
        gpu.load_ptx(text)
        for n, form in enumerate(forms):
            kinds = shape_of(Opcode(form))
            given = inputs(random.Random(form), kinds)
            size = LANES * groups(kinds)[0][2]
            out = gpu.array(size, np.uint64)
            gpu.launch(f"k{n}", 1, LANES, gpu.array(len(given), np.uint64, np.array(given, np.uint64)), out)
            expected = interpreted(machine, n, given, size)
            if elements([int(word) for word in out], kinds.result) != elements(expected, kinds.result):
                wrong.append(form)
    assert wrong == []


def interpreted(machine: Machine, number: int, given: list[int], size: int) -> list[int]:
    source, out = machine.buffer(np.array(given, np.uint64).tobytes()), machine.buffer(bytes(8 * size))
    machine.launch(f"k{number}", (1, 1, 1), (LANES, 1, 1), [source.to_bytes(8, "little"), out.to_bytes(8, "little")])
    return [int(word) for word in np.frombuffer(machine.memory.read(out, 8 * size), np.uint64)]
