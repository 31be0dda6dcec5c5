"""Random CUDA C kernels whose results C++ and CUDA define to the bit, if products and sums are not contracted.

Signed numbers wrap as unsigned ones, divisors are not 0, shifts are in range, all lanes of a warp come to its operations,
threads share memory across barriers alone, a float that is not a number is seen as such, not by its bits or its sign, and
the lesser or greater of two zeroes has no sign: compilers that know one of them may take either.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from tests.ptx_reference.vocabulary import ATOMIC, BINARY, CONSTANTS, PART, TYPES, UNARY, WARP

THREADS: Final = 64
WORDS: Final = 256
"""Words of the kernels' input."""
OUTPUTS: Final = 6
"""Words that each thread writes; behind those of all threads are `CELLS` words, one for each atomic operation."""
CELLS: Final = 5

VARIABLES: Final = {kind: tuple(f"{kind}{n}" for n in range(2 if kind in "lqdhc" else 3)) for kind in TYPES}
EXCHANGED: Final = "uifqhc"
"""Kinds of values that threads exchange in shared memory."""
PRELUDE: Final = """
#define BITS(x) ((x) != (x) ? 0x7fffffffu : __float_as_uint(x))
#define LONG_BITS(x) ((x) != (x) ? 0x7fffffffffffffffull : (unsigned long long)__double_as_longlong(x))
__constant__ unsigned table[16] = {1, 0xffffffffu, 3, 0x80000000u, 5, 0x7fffffffu, 70, 8, 0x12345678u, 1000, 0, 255, 12, 65536, 14, 15};
static __device__ float signed_as(float a, float b) { return b != b ? a : copysignf(a, b); }
static __device__ double signed_as(double a, double b) { return b != b ? a : copysign(a, b); }
static __device__ __noinline__ unsigned mix(unsigned a, int b, float c) { return a * 31u ^ (unsigned)(b >> 3) ^ BITS(c * 0.5f); }
static __device__ __noinline__ double blend(double a, unsigned long long b) { return a * 0.75 + (double)b; }
static __device__ __noinline__ unsigned steps(unsigned n) { return n < 2u ? n : steps(n / 2u) + (n & 1u); }
"""


@dataclass
class Writer:
    """Writes the body of one kernel."""

    chance: random.Random
    lines: list[str] = field(default_factory=list)
    loops: int = 0

    def expression(self, kind: str, depth: int = 0) -> str:
        choice = self.chance.random()
        if depth > 2 or choice < 0.25:
            return self.chance.choice(VARIABLES[kind])
        if choice < 0.35:
            return self.chance.choice(CONSTANTS[kind])
        if choice < 0.45:
            return f"({self.condition(depth + 1)} ? {self.expression(kind, depth + 1)} : {self.expression(kind, depth + 1)})"
        if choice < 0.75 and kind in BINARY:
            left, right = self.expression(kind, depth + 1), self.expression(kind, depth + 1)
            return self.chance.choice(BINARY[kind]).format(left, right)
        return f"({self.filled(self.chance.choice(UNARY[kind]), depth + 1)})"

    def filled(self, text: str, depth: int) -> str:
        """A text with expressions in place of ``{u}`` and the like."""
        found = ""
        while "{" in text:
            before, _, rest = text.partition("{")
            name, _, text = rest.partition("}")
            found += before + (self.expression(name, depth) if name in TYPES else name)
        return found + text

    def condition(self, depth: int = 0) -> str:
        kind = self.chance.choice("uuiilqfdc")
        operator = self.chance.choice(("<", "<=", "==", "!=", ">"))
        return f"({self.expression(kind, depth + 1)} {operator} {self.expression(kind, depth + 1)})"

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, *, uniform: bool) -> None:
        """Some statements; all threads come to those of a uniform block."""
        for _ in range(self.chance.randrange(2, 5)):
            self.statement(indent, uniform=uniform)

    def statement(self, indent: int, *, uniform: bool) -> None:
        choice = self.chance.random()
        if choice < 0.5 or indent > 3:
            kind = self.chance.choice("uuuiiilqffdhc")
            self.put(indent, f"{self.chance.choice(VARIABLES[kind])} = {self.expression(kind)};")
        elif choice < 0.6:
            self.put(indent, f"if {self.condition()} {{")
            self.block(indent + 1, uniform=False)
            if self.chance.random() < 0.5:
                self.put(indent, "} else {")
                self.block(indent + 1, uniform=False)
            self.put(indent, "}")
        elif choice < 0.7:
            self.loop(indent, uniform=uniform)
        elif choice < 0.76:
            self.switch(indent)
        elif choice < 0.82:
            array, kind = self.chance.choice(
                (("local[{u} & 3u]", "u"), ("floats[{u} & 3u]", "f"), ("bytes[{u} & 7u]", "c"))
            )
            self.put(indent, self.filled(f"{array} = {self.expression(kind)};", 1))
        elif choice < 0.86 or not uniform:
            self.put(indent, self.filled(self.chance.choice(ATOMIC), 1))
        elif choice < 0.92:
            self.exchange(indent)
        elif choice < 0.95:
            self.part(indent)
        else:
            self.warp(indent, WARP)

    def warp(self, indent: int, statements: tuple[str, ...]) -> None:
        values = {
            "a": self.chance.randrange(3),
            "b": self.chance.randrange(3),
            "lanes": self.chance.choice((1, 2, 5, 16)),
        }
        self.put(indent, self.chance.choice(statements).format(**values, condition=self.condition()))

    def part(self, indent: int) -> None:
        """Operations of the lanes of a warp for which a condition holds, and maybe of the others."""
        self.put(indent, f"{{ const bool some = {self.condition()};")
        self.put(indent + 1, "unsigned part = __ballot_sync(~0u, some);")
        self.put(indent + 1, "if (some) {")
        self.warp(indent + 2, PART)
        if self.chance.random() < 0.5:
            self.put(indent + 1, "} else {")
            self.put(indent + 2, "part = ~part;")
            self.warp(indent + 2, PART)
        self.put(indent + 1, "}")
        self.put(indent, "}")

    def loop(self, indent: int, *, uniform: bool) -> None:
        name, uniform = f"k{self.loops}", uniform and self.chance.random() < 0.6
        bound = self.chance.choice(("n", "3u")) if uniform else self.chance.choice(("t % 5u", "u0 % 4u", "h1 % 3u"))
        self.loops += 1
        self.put(indent, f"for (unsigned {name} = 0, most = {bound}; {name} < most; {name}++) {{")
        self.block(indent + 1, uniform=uniform)
        if not uniform and self.chance.random() < 0.4:
            self.put(indent + 1, f"if {self.condition()} {self.chance.choice(('break', 'continue'))};")
        self.put(indent + 1, f"u1 += {name};")
        self.put(indent, "}")

    def switch(self, indent: int) -> None:
        self.put(indent, f"switch ({self.expression('u')} % 7u) {{")
        for case in range(self.chance.randrange(2, 6)):
            kind = self.chance.choice("uif")
            ends = self.chance.choice((" break;", ""))
            self.put(indent, f"case {case}: {self.chance.choice(VARIABLES[kind])} = {self.expression(kind, 1)};{ends}")
        self.put(indent, f"default: i0 = {self.expression('i', 1)};")
        self.put(indent, "}")

    def exchange(self, indent: int) -> None:
        """Barriers about a value that another thread writes."""
        kind = self.chance.choice(EXCHANGED)
        array = f"shared_{kind}"
        other = f"{array}[(t + {self.chance.randrange(1, THREADS)}u) % {THREADS}u]"
        self.put(indent, f"__syncthreads(); {array}[t] = {self.expression(kind)}; __syncthreads();")
        self.put(indent, f"{self.chance.choice(VARIABLES[kind])} = {other};")


def kernel(seed: int) -> str:
    """Kernel ``k<seed>(in, out, n)`` for blocks of `THREADS` threads."""
    writer = Writer(random.Random(seed))
    for kind, names in VARIABLES.items():
        for place, name in enumerate(names):
            index = f"in[(t * {2 * place + 3}u + {ord(kind)}u) % {WORDS}u]"
            value = {
                "f": f"__uint_as_float({index})",
                "d": f"__longlong_as_double((long long)(((unsigned long long){index} << 32) | t))",
                "l": f"(long long)(((unsigned long long){index} << 32) | {index})",
                "q": f"(unsigned long long){index} * {index}",
            }.get(kind, f"({TYPES[kind]}){index}")
            writer.put(1, f"{TYPES[kind]} {name} = {value};")
    for _ in range(3):
        writer.block(1, uniform=True)
    results = (
        "u0 ^ h0",
        "u1 + u2",
        "(unsigned)(i0 ^ i1 ^ i2 ^ c0 ^ c1)",
        "(unsigned)(q0 ^ (q1 >> 32)) ^ (unsigned)(l0 ^ (l1 >> 32)) ^ h1",
        "BITS(f0) ^ BITS(f1) * 3u ^ BITS(f2) * 5u",
        "(unsigned)(LONG_BITS(d0) >> 32) ^ (unsigned)LONG_BITS(d1)",
    )
    for place, text in enumerate(results):
        writer.put(1, f"out[(blockIdx.x * {THREADS}u + t) * {OUTPUTS}u + {place}u] = {text};")
    shared = "".join(f"    __shared__ {TYPES[kind]} shared_{kind}[{THREADS}];\n" for kind in EXCHANGED)
    head = (
        f'extern "C" __global__ void k{seed}(const unsigned *in, unsigned *out, unsigned n) {{\n'
        f"{shared}"
        "    unsigned t = threadIdx.x, local[4] = {t, 1u, n, 3u};\n"
        "    float floats[4] = {0.5f, (float)t, -3.0f, (float)n};\n"
        "    signed char bytes[8] = {1, (signed char)t, -1, 100, (signed char)n, -128, 0, 7};\n"
        f"    unsigned *cells = out + gridDim.x * {THREADS * OUTPUTS}u;\n    in += blockIdx.x * 16u;\n"
    )
    return head + "\n".join(writer.lines) + "\n}\n"


def inputs(seed: int) -> list[int]:
    """Words of the input: bits of small and large integers, and of floats of all kinds."""
    chance = random.Random(~seed)
    edges = (
        0,
        1,
        0x80000000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x00400000,
        0xFFFFFFFF,
        0x7FFFFFFF,
        0x3F800000,
        0x4B800001,
    )
    kinds = (lambda: chance.choice(edges), lambda: chance.getrandbits(32), lambda: chance.getrandbits(8))
    floats = (
        lambda: 0x3F000000 + chance.getrandbits(26),
        lambda: chance.getrandbits(1) << 31 | 0x40000000 + chance.getrandbits(27),
    )
    return [chance.choice(kinds + floats)() for _ in range(WORDS + 64)]
