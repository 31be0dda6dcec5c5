"""PTX modules that apply forms of the table to columns of operands, run on the software GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.ptx_reference.operation import Opcode, Operation
from tests.ptx_reference.table import operation, rows
from tests.ptx_reference.types import CARRY, PREDICATE, Type
from tests.unit.cpu_rig import Rig, rig

HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"
FORMS_OF_A_MODULE = 100


@dataclass(frozen=True)
class Applied:
    """A form and its rows of operands."""

    form: str
    rows: Sequence[tuple[int, ...]]

    @property
    def operation(self) -> Operation:
        return operation(self.form)


def register_type(kind: Type) -> str:
    """Type of the register for values of a type."""
    return "pred" if kind in (PREDICATE, CARRY) else f"b{max(16, kind.width)}"


def kernel(number: int, applied: Applied) -> str:
    """Kernel ``k<number>(in, out, rows)``: operand n of row i at ``in[n * rows + i]``, results likewise, 64 bits each."""
    found, opcode = applied.operation, Opcode(applied.form)
    lines = [
        f".visible .entry k{number}(.param .u64 in, .param .u64 out, .param .u32 rows)\n{{",
        ".reg .b64 from, to, step, wide; .reg .b32 i, n, size, word; .reg .pred p;",
        "ld.param.u64 from, [in]; ld.param.u64 to, [out]; ld.param.u32 size, [rows];",
        "mov.u32 i, %ctaid.x; mov.u32 n, %ntid.x; mul.lo.u32 i, i, n; mov.u32 n, %tid.x; add.u32 i, i, n;",
        "setp.ge.u32 p, i, size; @p ret;",
        "mad.wide.u32 from, i, 8, from; mad.wide.u32 to, i, 8, to; mul.wide.u32 step, size, 8;",
    ]
    names = []
    for n, kind in enumerate(found.sources):
        lines.append(f".reg .{register_type(kind)} a{n}; ld.global.b64 wide, [from]; add.u64 from, from, step;")
        lines.append(loaded(f"a{n}", kind))
        if kind != CARRY:
            names.append(f"a{n}")
    if opcode.name == "lop3":
        names[3] = str(applied.rows[0][3])
    results = [f"d{n}" for n, kind in enumerate(found.results) if kind != CARRY]
    lines += [f".reg .{register_type(kind)} d{n};" for n, kind in enumerate(found.results) if kind != CARRY]
    lines.append(f"{applied.form} {'|'.join(results)}, {', '.join(names)};")
    for n, kind in enumerate(found.results):
        lines.append(stored(f"d{n}", kind))
        lines.append("st.global.b64 [to], wide; add.u64 to, to, step;")
    return "\n".join([*lines, "ret;\n}\n"])


def loaded(name: str, kind: Type) -> str:
    """Moves an operand from 64 bits into its register, or into the carry flag."""
    if kind == CARRY:
        return "cvt.u32.u64 word, wide; add.cc.u32 word, word, 0xffffffff;"
    if kind == PREDICATE:
        return f"setp.ne.u64 {name}, wide, 0;"
    bits = max(16, kind.width)
    return f"mov.b64 {name}, wide;" if bits == 64 else f"cvt.u{bits}.u64 {name}, wide;"


def stored(name: str, kind: Type) -> str:
    """Moves a result, or the carry flag, into 64 bits."""
    if kind == CARRY:
        return "addc.u32 word, 0, 0; cvt.u64.u32 wide, word;"
    if kind == PREDICATE:
        return f"selp.u64 wide, 1, 0, {name};"
    bits = max(16, kind.width)
    return f"mov.b64 wide, {name};" if bits == 64 else f"cvt.u64.u{bits} wide, {name};"


def results_of(gpu: Rig, number: int, applied: Applied) -> list[tuple[int, ...]]:
    """Results of all rows, as bits."""
    size, found = len(applied.rows), applied.operation
    given = gpu.array((len(found.sources), size), np.uint64, np.array(applied.rows, np.uint64).T)
    out = gpu.array((len(found.results), size), np.uint64)
    gpu.launch(f"k{number}", (size + 127) // 128, 128, given, out, np.uint32(size))
    return [tuple(int(bits) for bits in row) for row in out.T]


def same(found: int, expected: int, kind: Type, *, canonical: bool) -> bool:
    """True for equal bits; for two not-a-numbers as well, in each lane, unless the ISA names their bits."""
    mask = (1 << max(16, kind.width)) - 1 if not kind.signed else kind.mask
    if found & mask == expected & mask:
        return True
    if not kind.real or canonical:
        return False
    lane = Type(kind.kind, kind.bits).format
    pairs = zip(kind.split(found), kind.split(expected), strict=True)
    return all(a == b or (lane.is_nan(a) and lane.is_nan(b)) for a, b in pairs)


def wrong_results(forms: Sequence[str], most: int) -> list[str]:
    """Runs forms over their edge values; a line for each that differs from the reference, with the first such row."""
    wrong = []
    applied = [Applied(form, rows(form, most)) for form in forms]
    for first in range(0, len(applied), FORMS_OF_A_MODULE):
        part = applied[first : first + FORMS_OF_A_MODULE]
        with rig(pes=1, guard_pages=False) as gpu:
            gpu.load_ptx(HEADER + "".join(kernel(n, one) for n, one in enumerate(part)))
            for n, one in enumerate(part):
                wrong += differences(one, results_of(gpu, n, one))
    return wrong


def differences(applied: Applied, found: Sequence[tuple[int, ...]]) -> list[str]:
    """The first row of a form whose results differ, in words."""
    compute = applied.operation
    for operands, results in zip(applied.rows, found, strict=True):
        expected = compute(*operands)
        kinds = compute.results
        if not all(
            same(a, b, kind, canonical=compute.canonical) for a, b, kind in zip(results, expected, kinds, strict=True)
        ):
            given = ", ".join(map(hex, operands))
            return [f"{applied.form} of {given}: {[*map(hex, results)]}, expected {[*map(hex, expected)]}"]
    return []
