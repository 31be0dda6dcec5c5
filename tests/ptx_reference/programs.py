"""Random CUDA C kernels whose results C++ and CUDA define to the bit, if products and sums are not contracted.

Signed numbers wrap as unsigned ones, divisors are not 0, shifts are in range, all lanes of a warp come to its operations,
threads share memory across barriers alone, a float that is not a number is seen as such, not by its bits or its sign, and
the lesser or greater of two zeroes has no sign: compilers that know both zeroes take either.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

THREADS: Final = 64
WORDS: Final = 256
"""Words of the kernels' input."""
OUTPUTS: Final = 6
"""Words that each thread writes; behind those of all threads are `CELLS` words, one for each atomic operation."""
CELLS: Final = 5

TYPES: Final = {
    "u": "unsigned",
    "i": "int",
    "l": "long long",
    "q": "unsigned long long",
    "f": "float",
    "d": "double",
    "h": "unsigned short",
    "c": "signed char",
}
VARIABLES: Final = {kind: tuple(f"{kind}{n}" for n in range(2 if kind in "lqdhc" else 3)) for kind in TYPES}
PRELUDE: Final = """
#define BITS(x) ((x) != (x) ? 0x7fffffffu : __float_as_uint(x))
#define LONG_BITS(x) ((x) != (x) ? 0x7fffffffffffffffull : (unsigned long long)__double_as_longlong(x))
__constant__ unsigned table[16] = {1, 0xffffffffu, 3, 0x80000000u, 5, 0x7fffffffu, 70, 8, 0x12345678u, 1000, 0, 255, 12, 65536, 14, 15};
static __device__ float signed_as(float a, float b) { return b != b ? a : copysignf(a, b); }
static __device__ __noinline__ unsigned mix(unsigned a, int b, float c) { return a * 31u ^ (unsigned)(b >> 3) ^ BITS(c * 0.5f); }
static __device__ __noinline__ double blend(double a, unsigned long long b) { return a * 0.75 + (double)b; }
static __device__ __noinline__ unsigned steps(unsigned n) { return n < 2u ? n : steps(n / 2u) + (n & 1u); }
"""
BINARY: Final[dict[str, tuple[str, ...]]] = {
    "u": (
        *(
            "({0} + {1})",
            "({0} - {1})",
            "({0} * {1})",
            "({0} & {1})",
            "({0} | {1})",
            "({0} ^ {1})",
            "({0} / ({1} | 1u))",
        ),
        *("({0} % ({1} | 1u))", "({0} << ({1} & 31u))", "({0} >> ({1} & 31u))", "__umulhi({0}, {1})", "min({0}, {1})"),
        *(
            "max({0}, {1})",
            "__funnelshift_l({0}, {1}, {1} >> 5)",
            "__funnelshift_rc({0}, {1}, {0} >> 9)",
            "__umul24({0}, {1})",
        ),
        *(
            "__byte_perm({0}, {1}, 0x5140u)",
            "__byte_perm({0}, {1}, {0} & 0x7777u)",
            "__dp4a({0}, {1}, {0})",
            "__usad({0}, {1}, 7u)",
        ),
        *("__vadd4({0}, {1})", "__vmaxs2({0}, {1})", "__vabsdiffu4({0}, {1})"),
    ),
    "i": (
        *("(int)((unsigned){0} + (unsigned){1})", "(int)((unsigned){0} * (unsigned){1})", "({0} / (({1} & 63) + 1))"),
        *("({0} % (({1} & 63) + 1))", "({0} >> ({1} & 31))", "min({0}, {1})", "max({0}, {1})", "__mulhi({0}, {1})"),
        *("__dp4a({0}, {1}, 5)", "__mul24({0}, {1})", "__hadd({0}, {1})", "({0} ^ ~{1})"),
    ),
    "q": (
        *("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} ^ {1})", "({0} / ({1} | 1ull))", "({0} % ({1} | 1ull))"),
        *("({0} << ({1} & 63))", "({0} >> ({1} & 63))", "__umul64hi({0}, {1})", "min({0}, {1})"),
    ),
    "l": (
        *("(long long)((unsigned long long){0} - (unsigned long long){1})", "({0} / (({1} & 1023) + 1))"),
        *("({0} % (({1} & 1023) + 1))", "({0} >> ({1} & 63))", "__mul64hi({0}, {1})", "max({0}, {1})", "({0} & {1})"),
    ),
    "f": (
        *(
            "({0} + {1})",
            "({0} - {1})",
            "({0} * {1})",
            "({0} / {1})",
            "(fminf({0}, {1}) + 0.0f)",
            "(fmaxf({0}, {1}) + 0.0f)",
        ),
        *(
            "fmaf({0}, {1}, {0})",
            "__fadd_rz({0}, {1})",
            "__fmul_ru({0}, {1})",
            "__fdiv_rd({0}, {1})",
            "__fmaf_rz({0}, {1}, {1})",
        ),
        *("sqrtf(fabsf({0} - {1}))", "({0} * 2.5f - {1})", "__fsub_rd({0}, {1})"),
        *("__fadd_rd({0}, {1})", "__fsub_ru({0}, {1})", "__fmul_rd({0}, {1})", "__fdiv_rz({0}, {1})"),
        *("__fmaf_rd({0}, {1}, {0})", "__fmaf_ru({1}, {0}, {1})", "(min({0}, {1}) + 0.0f)", "(max({0}, {1}) + 0.0f)"),
        *(
            "(fmaxf({0}, 0.0f) + 0.0f)",
            "(fminf({0}, 0.0f) + 0.0f)",
            "(fmaxf(-0.0f, {0}) + 0.0f)",
            "signed_as({0}, {1})",
        ),
    ),
    "d": (
        *("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "(fmin({0}, {1}) + 0.0)", "fma({0}, {1}, {1})"),
        *("__dadd_ru({0}, {1})", "__dmul_rz({0}, {1})", "sqrt(fabs({0}))"),
        *(
            "(fmax({0}, {1}) + 0.0)",
            "(min({0}, {1}) + 0.0)",
            "(fmax({0}, 0.0) + 0.0)",
            "__dsub_rd({0}, {1})",
            "__ddiv_rd({0}, {1})",
        ),
        *("__fma_rd({0}, {1}, {0})", "__fma_rz({0}, {1}, {1})"),
    ),
}
UNARY: Final[dict[str, tuple[str, ...]]] = {
    "u": (
        "~{u}",
        "(unsigned){i}",
        "(unsigned)__popc({u})",
        "(unsigned)__clz({i})",
        "__brev({u})",
        "(unsigned)__ffs({i})",
        "BITS({f})",
        "(unsigned){q}",
        "(unsigned)({q} >> 32)",
        "__float2uint_rn({f})",
        "(unsigned){d}",
        "(unsigned){h}",
        "table[{u} & 15u]",
        "in[({u} + {t}) % 256u]",
        "(unsigned)__popcll({q})",
        "local[{u} & 3u]",
        "mix({u}, {i}, {f})",
        "steps({u} & 255u)",
        "(unsigned)__clzll({l})",
    ),
    "i": (
        "-(int)({u} >> 1)",
        "(int){u}",
        "(int){f}",
        "__float2int_ru({f})",
        "(int){c}",
        "abs((int)({u} >> 1))",
        "(int){l}",
        "(int)(short){h}",
        "__double2int_rn({d})",
        "(int){d}",
    ),
    "l": (
        "(long long){i}",
        "(long long){q}",
        "(long long){f}",
        "(long long){d}",
        "(long long){i} * {i}",
        "__float2ll_rd({f})",
    ),
    "q": (
        "(unsigned long long){u}",
        "(unsigned long long){l}",
        "LONG_BITS({d})",
        "(unsigned long long){u} * {u}",
        "__brevll({q})",
        "(unsigned long long){f}",
        "__double2ull_rz({d})",
    ),
    "f": (
        "(float){i}",
        "(float){u}",
        "(float){l}",
        "(float){q}",
        "__uint_as_float({u})",
        "(float){d}",
        "-({f})",
        "fabsf({f})",
        "truncf({f})",
        "floorf({f})",
        "rintf({f})",
        "__int2float_rz({i})",
        "__ull2float_rd({q})",
        "__double2float_ru({d})",
        "(float){c}",
        "__saturatef({f})",
        "ceilf({f})",
        "__frcp_ru({f})",
        "__frcp_rd({f})",
        "__fsqrt_rz({f})",
        "__fsqrt_ru(fabsf({f}))",
        "__double2float_rz({d})",
        "__ll2float_ru({l})",
    ),
    "d": (
        "(double){i}",
        "(double){u}",
        "(double){l}",
        "(double){q}",
        "(double){f}",
        "-({d})",
        "__ll2double_rd({l})",
        "blend({d}, {q})",
        "floor({d})",
        "__longlong_as_double({l})",
        "__drcp_rz({d})",
        "__dsqrt_rd(fabs({d}))",
        "__ull2double_ru({q})",
    ),
    "h": (
        "(unsigned short){u}",
        "(unsigned short)({h} * {h})",
        "(unsigned short)({h} >> ({u} & 7u))",
        "(unsigned short)({h} + {c})",
    ),
    "c": ("(signed char){i}", "(signed char)({c} ^ {c})", "(signed char)({c} >> 2)"),
}
CONSTANTS: Final = {
    "u": ("0u", "1u", "7u", "0x80000000u", "0xffffffffu", "t", "n"),
    "i": ("0", "-1", "100", "0x7fffffff", "(-0x7fffffff - 1)", "(int)t"),
    "l": ("-1ll", "(1ll << 40)", "0x7fffffffffffffffll"),
    "q": ("0ull", "(1ull << 63)", "0xfedcba9876543210ull"),
    "f": ("0.0f", "-0.0f", "1.5f", "3.4e38f", "1e-42f", "-7.25f", "16777217.0f", "(1.0f / 3.0f)"),
    "d": ("0.1", "-1e300", "5e-324", "4503599627370497.5"),
    "h": ("(unsigned short)65535u",),
    "c": ("(signed char)-128",),
}
WARP: Final = (
    "u{a} = __shfl_xor_sync(~0u, u{b}, {lanes}u);",
    "u{a} = __shfl_down_sync(~0u, u{b}, {lanes}u, 16);",
    "u{a} = __shfl_up_sync(~0u, u{b}, {lanes}u, 8);",
    "i{a} = __shfl_sync(~0u, i{b}, (int)(u{b} & 31u));",
    "q0 = __shfl_sync(~0u, q1, (int){lanes}, 4);",
    "f{a} = __shfl_xor_sync(~0u, f{b}, {lanes});",
    "u{a} ^= __ballot_sync(~0u, {condition});",
    "u{a} += __any_sync(~0u, {condition}) ? 3u : 4u;",
    "u{a} += __all_sync(~0u, {condition}) ? 5u : 6u;",
    "u{a} ^= __match_any_sync(~0u, u{b} & 3u);",
    "u{a} += __reduce_add_sync(~0u, u{b});",
    "i{a} = __reduce_min_sync(~0u, i{b});",
    "u{a} = __reduce_xor_sync(~0u, u{b});",
)
ATOMIC: Final = (
    "atomicAdd(&cells[0], {u});",
    "atomicMax(&cells[1], {u});",
    "atomicMin((int *)&cells[2], {i});",
    "atomicXor(&cells[3], {u});",
    "atomicOr(&cells[4], {u});",
)


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
            self.put(indent, self.filled(f"local[{{u}} & 3u] = {self.expression('u')};", 1))
        elif choice < 0.86 or not uniform:
            self.put(indent, self.filled(self.chance.choice(ATOMIC), 1))
        elif choice < 0.92:
            self.exchange(indent)
        else:
            values = {
                "a": self.chance.randrange(3),
                "b": self.chance.randrange(3),
                "lanes": self.chance.choice((1, 2, 5, 16)),
            }
            self.put(indent, self.chance.choice(WARP).format(**values, condition=self.condition()))

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
        self.put(indent, f"__syncthreads(); shared[t] = {self.expression('u')}; __syncthreads();")
        self.put(
            indent, f"u{self.chance.randrange(3)} = shared[(t + {self.chance.randrange(1, THREADS)}u) % {THREADS}u];"
        )


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
    head = (
        f'extern "C" __global__ void k{seed}(const unsigned *in, unsigned *out, unsigned n) {{\n'
        f"    __shared__ unsigned shared[{THREADS}];\n    unsigned t = threadIdx.x, local[4] = {{t, 1u, n, 3u}};\n"
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
