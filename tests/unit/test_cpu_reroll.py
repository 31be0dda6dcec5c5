"""Loops that NVRTC unrolls with a remainder become one loop on the CPU engine: only where that changes nothing."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.unit.cpu_code import llvm_code
from tests.unit.cpu_rig import rig
from tests.unit.ptx_compilers import needs_nvrtc, nvrtc_ptx

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 0, 4, 3, 64, 6, 1)
CELLS = 64  # of memory that a row's loop reads and writes
MASK = 2**32 - 1

HEAD = """
.version 7.5
.target sm_80
.address_size 64
.visible .entry rows(.param .u32 p_rows, .param .u64 p_starts, .param .u64 p_at, .param .u64 p_x, .param .u64 p_z,
                     .param .u64 p_y)
{
    .reg .pred %p<9>;
    .reg .b32 %r<40>, %i<9>, %a<2>, %v<4>;
    .reg .b64 %rd<40>;
    ld.param.u32 %r1, [p_rows];
    ld.param.u64 %rd1, [p_starts];
    ld.param.u64 %rd2, [p_at];
    ld.param.u64 %rd3, [p_x];
    ld.param.u64 %rd4, [p_z];
    ld.param.u64 %rd5, [p_y];
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r3, %r2, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra END;
    mul.wide.u32 %rd6, %r5, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.u32 %r6, [%rd7];
    ld.global.u32 %r7, [%rd7+4];
    mul.wide.u32 %rd8, %r5, 8;
    add.s64 %rd9, %rd5, %rd8;
    mul.wide.u32 %rd10, %r5, 256;
    add.s64 %rd11, %rd4, %rd10;
    mov.u32 %a0, 5;
    mov.u32 %a1, %r5;
"""

Operation = tuple[str, str, str]
"""A PTX instruction without its type, its result, and what it takes besides the result."""


@dataclass(frozen=True)
class Pair:
    """A loop over a row's elements as NVRTC unrolls it. Defaults are what it emits, all else only looks alike."""

    body: Sequence[Operation]
    other_body: dict[int, Sequence[Operation]] = field(default_factory=dict)
    """Bodies of single copies in the main loop."""
    copies: int = 4
    down: bool = False
    signed: bool = False
    mask: int = 3
    guard: int = 3
    begin: int = 0
    """Difference between the index that the main loop begins with and the one that the first loop leaves."""
    limit: int = 0
    """Difference between the limits of the main loop and of the row."""

    def ptx(self) -> str:
        kind = "s" if self.signed else "u"
        start, end = ("%r7", "%r6") if self.down else ("%r6", "%r7")
        sign = -1 if self.down else 1
        lines = [
            f"setp.{'le' if self.down else 'ge'}.{kind}32 %p2, {start}, {end}; @%p2 bra DONE;",
            f"sub.s32 %r10, %r7, %r6; and.b32 %r11, %r10, {self.mask}; mov.u32 %i0, {start};",
            "setp.eq.s32 %p3, %r11, 0; @%p3 bra BETWEEN;",
            "FIRST:",
            *(_text(one, "%i0", kind) for one in self.body),
            f"add.s32 %i0, %i0, {sign}; add.s32 %r11, %r11, -1; setp.ne.s32 %p4, %r11, 0; @%p4 bra FIRST;",
            "BETWEEN:",
            f"add.s32 %r12, %r10, -1; setp.lt.u32 %p5, %r12, {self.guard}; @%p5 bra DONE;",
            f"add.s32 %i0, %i0, {self.begin}; add.s32 %r13, {end}, {self.limit};",
            "MAIN:",
        ]
        for copy in range(self.copies):
            index = f"%i{copy}"
            if copy > 0:
                lines.append(f"add.s32 {index}, %i0, {sign * copy};")
            lines += [_text(one, index, kind) for one in self.other_body.get(copy, self.body)]
        compare = "gt" if self.down else "lt"
        lines += [
            f"add.s32 %i0, %i0, {sign * self.copies}; setp.{compare}.{kind}32 %p6, %i0, %r13; @%p6 bra MAIN;",
            "DONE:",
            "st.global.u32 [%rd9], %a0; st.global.u32 [%rd9+4], %a1;",
            "END: ret;",
        ]
        return HEAD + "\n".join(lines) + "\n}\n"

    def results(self, row: int, first: int, last: int, memory: Memory) -> tuple[int, int]:
        sums, values = [5, row], [0, 0, 0, 0]

        def run(body: Sequence[Operation], index: int) -> None:
            _run(body, index, sums, values, memory)

        if first >= last:
            return sums[0], sums[1]
        sign = -1 if self.down else 1
        index, end = (last, first) if self.down else (first, last)
        for _ in range((last - first) & self.mask):
            run(self.body, index)
            index += sign
        if last - first - 1 >= self.guard:
            index += self.begin
            while True:
                for copy in range(self.copies):
                    run(self.other_body.get(copy, self.body), index + sign * copy)
                index += sign * self.copies
                if sign * index >= sign * (end + self.limit):
                    break
        return sums[0], sums[1]


@dataclass
class Memory:
    """Arrays that the loop of a row reads and writes."""

    at: np.ndarray
    x: np.ndarray
    z: np.ndarray


def _text(operation: Operation, index: str, kind: str) -> str:
    name, result, operand = operation
    taken = operand.replace("I", index)
    if name == "at":
        return f"mul.wide.{kind}32 %rd20, {index}, 4; add.s64 %rd21, %rd2, %rd20; ld.global.u32 {result}, [%rd21];"
    address = f"mul.wide.u32 %rd22, {taken}, 4; add.s64 %rd23, {{}}, %rd22;"
    if name == "x":
        return f"{address.format('%rd3')} ld.global.u32 {result}, [%rd23];"
    if name == "z":
        return f"{address.format('%rd11')} ld.global.u32 {result}, [%rd23];"
    if name == "store":
        return f"{address.format('%rd11')} st.global.u32 [%rd23], {result};"
    type_name = {"add": "s32", "sub": "s32", "mul.lo": "s32"}.get(name, "b32")
    return f"{name}.{type_name} {result}, {result}, {taken};"


COMPUTED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "xor": operator.xor,
    "and": operator.and_,
}


def _run(body: Sequence[Operation], index: int, sums: list[int], values: list[int], memory: Memory) -> None:
    def value(name: str) -> int:
        if name == "I":
            return index & MASK
        return (sums if name[1] == "a" else values)[int(name[2])] if name.startswith("%") else int(name or "0")

    for name, result, operand in body:
        taken = value(operand)
        if name == "store":
            memory.z[taken] = value(result)
            continue
        if name == "at":
            new = int(memory.at[index])
        elif name in "xz":
            new = int((memory.x if name == "x" else memory.z)[taken])
        else:
            new = COMPUTED[name](value(result), taken) & MASK
        (sums if result[1] == "a" else values)[int(result[2])] = new


READ: list[Operation] = [("at", "%v0", ""), ("x", "%v1", "%v0")]
SUM: list[Operation] = [*READ, ("add", "%a0", "%v1"), ("xor", "%a0", "I")]
SUMS: list[Operation] = [
    *READ,
    ("mul.lo", "%a0", "3"),
    ("add", "%a0", "%v1"),
    ("sub", "%a1", "%a0"),
    ("xor", "%a1", "7"),
]
STORES: list[Operation] = [*READ, ("z", "%v2", "%v0"), ("add", "%v2", "%v1"), ("store", "%v2", "%v0")]


def _check(pair: Pair, seed: int = 0) -> None:
    generator = np.random.default_rng(seed)
    before = 8  # loops that look alike may run a little too far
    starts = before + np.concatenate([[0], np.cumsum(LENGTHS)])
    rows, elements = len(LENGTHS), int(starts[-1]) + 16
    with rig(1) as gpu:
        gpu.load_ptx(pair.ptx())
        at = gpu.array(elements, np.uint32, generator.integers(0, CELLS, elements))
        x = gpu.array(CELLS, np.uint32, generator.integers(0, 2**32, CELLS))
        z = gpu.array((rows, CELLS), np.uint32, generator.integers(0, 2**32, (rows, CELLS)))
        y = gpu.array((rows, 2), np.uint32)
        expected_z = z.copy()
        expected = [
            pair.results(row, int(starts[row]), int(starts[row + 1]), Memory(at, x, expected_z[row]))
            for row in range(rows)
        ]
        gpu.launch("rows", 1, 32, np.uint32(rows), gpu.array(rows + 1, np.uint32, starts), at, x, z, y)
        assert [tuple(map(int, row)) for row in y] == expected
        assert np.array_equal(z, expected_z)


def _is_one_loop(code: str, kernel: str = "rows") -> bool:
    found = re.search(rf"^define[^\n]*@{kernel}\.region0\(.*?^}}", code, re.DOTALL | re.MULTILINE)
    assert found is not None
    return "\nonce:" in found[0]


@pytest.mark.parametrize("body", [SUM, SUMS, STORES], ids=["sum", "sums", "stores"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("copies", [4, 8])
def test_unrolled_loop(body: list[Operation], signed: bool, down: bool, copies: int) -> None:
    pair = Pair(body, signed=signed, down=down, copies=copies, mask=copies - 1, guard=copies - 1)
    assert _is_one_loop(llvm_code(pair.ptx(), "PTX", before=True))
    _check(pair)


LIKE = {
    "constant": Pair(SUMS, {2: [*READ, ("mul.lo", "%a0", "5"), *SUMS[3:]]}),
    "operation": Pair(SUM, {3: [*READ, ("sub", "%a0", "%v1"), SUM[3]]}),
    "swapped difference": Pair(
        [*READ, ("sub", "%v1", "%a0"), ("xor", "%a0", "%v1")],
        {1: [*READ, ("sub", "%a0", "%v1"), ("xor", "%v1", "%a0"), ("and", "%a0", "0"), ("add", "%a0", "%v1")]},
    ),
    "other sum": Pair(SUMS, {1: [*READ, ("mul.lo", "%a1", "3"), *SUMS[3:]]}),
    "load before the store": Pair(
        STORES,
        {
            1: [*READ, ("z", "%v2", "%v0"), ("add", "%v2", "%v1")],
            2: [("store", "%v2", "%v0"), *STORES, *STORES[:3], ("store", "%v1", "%v0")],
        },
    ),
    "stores in another order": Pair([*STORES, ("store", "%v1", "3")], {2: [*READ, ("store", "%v1", "3"), *STORES[2:]]}),
    "begins elsewhere": Pair(SUM, begin=1),
    "begins before": Pair(SUM, begin=-1),
    "ends later": Pair(SUM, limit=2),
    "ends earlier": Pair(SUM, limit=-3),
    "smaller remainder": Pair(SUM, mask=1),
    "larger remainder": Pair(SUM, mask=7),
    "guard": Pair(SUM, guard=7),
    "no guard": Pair(SUM, guard=0),
    "copies": Pair(SUM, copies=3),
}
SAME_CODE = {"begins elsewhere", "begins before", "ends later", "ends earlier"} | {
    "smaller remainder", "larger remainder", "guard", "no guard"
}  # fmt: skip
"""Pairs that differ in numbers which a test before the loop compares."""


@pytest.mark.parametrize("name", LIKE)
def test_loops_that_look_alike(name: str) -> None:
    if name not in SAME_CODE:
        assert not _is_one_loop(llvm_code(LIKE[name].ptx(), "PTX", before=True))
    _check(LIKE[name])


def _random_pair(chance: random.Random) -> Pair:
    def operation() -> Operation:
        name = chance.choice(["add", "sub", "mul.lo", "xor"])
        operand = chance.choice(["%v1", "%v1", "%v1", "%a0", "%a1", "I", str(chance.randrange(1, 99))])
        return name, chance.choice(["%a0", "%a1"]), operand

    body = [*READ, *(operation() for _ in range(chance.randrange(1, 5)))]
    if chance.random() < 0.4:
        body += [("z", "%v2", "%v0"), ("xor", "%v2", "%a1"), ("store", "%v2", chance.choice(["%v0", "9"]))]
    copies = chance.choice([4, 4, 8])
    pair = Pair(body, signed=chance.random() < 0.5, down=chance.random() < 0.3, copies=copies, mask=copies - 1,
                guard=copies - 1)  # fmt: skip
    change = chance.randrange(6)
    if change == 0:
        other = list(body)
        other[chance.randrange(2, len(READ) + 1)] = operation()
        return Pair(body, {chance.randrange(copies): other}, copies, pair.down, pair.signed, pair.mask, pair.guard)
    if change == 1:
        return Pair(body, {}, copies, pair.down, pair.signed, chance.choice([1, 3, 7]), chance.choice([0, 1, 3, 7]),
                    chance.choice([0, 0, 1, -1]), chance.choice([0, 0, 1, -2]))  # fmt: skip
    return pair


@pytest.mark.parametrize("seed", range(60))
def test_random_loops(seed: int) -> None:
    _check(_random_pair(random.Random(seed)), seed)


KERNELS = r"""
#define EXPORT extern "C" __global__ void
#define BODY unsigned row = blockIdx.x * blockDim.x + threadIdx.x; if (row >= rows) return; float s = 0.5f, t = 0;
#define EACH for (K k = starts[row]; k < starts[row + 1]; k++)
#define KERNEL(name, T, loop, result) \
EXPORT name(unsigned rows, const T *__restrict__ starts, const T *__restrict__ at, const float *__restrict__ x, \
            float *z, float *__restrict__ y) \
{ typedef T K; BODY loop; y[row] = result; }
#define KERNELS(T, tag) \
KERNEL(sum_##tag, T, EACH s = s * 0.5f + x[at[k]], s) \
KERNEL(two_##tag, T, EACH { float f = x[at[k]]; s += f; t = t * 0.25f + f; }, s + t) \
KERNEL(index_##tag, T, K k = starts[row]; for (; k < starts[row + 1]; k++) s += x[at[k]], s + k) \
KERNEL(down_##tag, T, for (K k = starts[row + 1]; k > starts[row]; k--) s = s * 0.5f + x[at[k - 1]], s) \
KERNEL(eight_##tag, T, _Pragma("unroll 8") EACH s = s * 0.5f + x[at[k]], s) \
KERNEL(stores_##tag, T, EACH z[64 * row + at[k]] += x[at[k]] + k, s)
KERNELS(unsigned, u32)
KERNELS(int, s32)
KERNELS(long long, s64)
"""
ONE_LOOP = [f"{name}_{tag}" for tag in ("u32", "s32", "s64") for name in ("sum", "two", "index")] + ["eight_s64"]


@needs_nvrtc
def test_code_of_nvrtc_is_one_loop() -> None:
    code = llvm_code(nvrtc_ptx(KERNELS), "PTX", before=True)
    assert [name for name in ONE_LOOP if not _is_one_loop(code, name)] == []


def _row(name: str, x: list[np.float32], first: int, z: np.ndarray, at: list[int]) -> np.float32:
    s, t, half = np.float32(0.5), np.float32(0), np.float32(0.5)
    order = list(reversed(range(len(x)))) if name == "down" else range(len(x))
    for i in order:
        if name == "stores":
            z[at[i]] += x[i] + np.float32(first + i)
        elif name == "two":
            s, t = s + x[i], t * half * half + x[i]
        elif name == "index":
            s = s + x[i]
        else:
            s = s * half + x[i]
    return s + np.float32(first + len(x)) if name == "index" else s + t


@needs_nvrtc
@pytest.mark.parametrize("tag", ["u32", "s32", "s64"])
def test_results_of_code_of_nvrtc(tag: str) -> None:
    generator = np.random.default_rng(3)
    kind = {"u32": np.uint32, "s32": np.int32, "s64": np.int64}[tag]
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    rows = len(LENGTHS)
    with rig(1) as gpu:
        gpu.load_ptx(nvrtc_ptx(KERNELS))
        at = gpu.array(int(starts[-1]), kind, generator.integers(0, CELLS, int(starts[-1])))
        x = gpu.array(CELLS, np.float32, generator.integers(-8, 8, CELLS))
        for name in ("sum", "two", "index", "down", "eight", "stores"):
            z, y = gpu.array((rows, CELLS), np.float32), gpu.array(rows, np.float32)
            gpu.launch(f"{name}_{tag}", 1, 32, np.uint32(rows), gpu.array(rows + 1, kind, starts), at, x, z, y)
            expected = np.zeros((rows, CELLS), np.float32)
            for row in range(rows):
                places = [int(one) for one in at[starts[row] : starts[row + 1]]]
                value = _row(name, [x[one] for one in places], int(starts[row]), expected[row], places)
                assert np.isclose(y[row], value, rtol=1e-5), (name, row)
            assert np.allclose(z, expected), name
