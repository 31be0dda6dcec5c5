"""Expressions and statements of random kernels, by the kinds of their values (`TYPES`)."""

from __future__ import annotations

from typing import Final

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
"""Types of values by their letters."""


def lines(text: str) -> tuple[str, ...]:
    """Lines without their indentation."""
    return tuple(line.strip() for line in text.strip().splitlines())


BINARY: Final = {
    "u": lines("""
        ({0} + {1})
        ({0} - {1})
        ({0} * {1})
        ({0} & {1})
        ({0} | {1})
        ({0} ^ {1})
        ({0} / ({1} | 1u))
        ({0} % ({1} | 1u))
        ({0} << ({1} & 31u))
        ({0} >> ({1} & 31u))
        __umulhi({0}, {1})
        min({0}, {1})
        max({0}, {1})
        __funnelshift_l({0}, {1}, {1} >> 5)
        __funnelshift_rc({0}, {1}, {0} >> 9)
        __umul24({0}, {1})
        __byte_perm({0}, {1}, 0x5140u)
        __byte_perm({0}, {1}, {0} & 0x7777u)
        __dp4a({0}, {1}, {0})
        __usad({0}, {1}, 7u)
        __vadd4({0}, {1})
        __vmaxs2({0}, {1})
        __vabsdiffu4({0}, {1})
        __funnelshift_r({0}, {1}, {0})
        __funnelshift_lc({0}, {1}, {0} >> 7)
        __dp2a_lo({0}, {1}, {1})
        __uhadd({0}, {1})
        __urhadd({0}, {1})
        (({0} & 0xff00fff0u) | ({1} & 0x00ff000fu))
        ({0} & ~{1})
        __vsub2({0}, {1})
        __vminu4({0}, {1})
        __vcmpgtu4({0}, {1})
        __vavgu4({0}, {1})
        __vsetles2({0}, {1})
    """),
    "i": lines("""
        (int)((unsigned){0} + (unsigned){1})
        (int)((unsigned){0} * (unsigned){1})
        ({0} / (({1} & 63) + 1))
        ({0} % (({1} & 63) + 1))
        ({0} >> ({1} & 31))
        min({0}, {1})
        max({0}, {1})
        __mulhi({0}, {1})
        __dp4a({0}, {1}, 5)
        __mul24({0}, {1})
        __hadd({0}, {1})
        ({0} ^ ~{1})
        __rhadd({0}, {1})
        (int)__sad({0}, {1}, 3u)
        __dp2a_hi({0}, {1}, {0})
        (({0} & 0x7ffffff0) + ({1} & 15))
    """),
    "q": lines("""
        ({0} + {1})
        ({0} - {1})
        ({0} * {1})
        ({0} ^ {1})
        ({0} / ({1} | 1ull))
        ({0} % ({1} | 1ull))
        ({0} << ({1} & 63))
        ({0} >> ({1} & 63))
        __umul64hi({0}, {1})
        min({0}, {1})
        max({0}, {1})
        (({0} & 0xff00ff00ff00ffffull) | ({1} & 0x00ff00ff00ff0000ull))
        ({0} | {1})
    """),
    "l": lines("""
        (long long)((unsigned long long){0} - (unsigned long long){1})
        ({0} / (({1} & 1023) + 1))
        ({0} % (({1} & 1023) + 1))
        ({0} >> ({1} & 63))
        __mul64hi({0}, {1})
        max({0}, {1})
        ({0} & {1})
        min({0}, {1})
        ({0} ^ ~{1})
    """),
    "f": lines("""
        ({0} + {1})
        ({0} - {1})
        ({0} * {1})
        ({0} / {1})
        (fminf({0}, {1}) + 0.0f)
        (fmaxf({0}, {1}) + 0.0f)
        fmaf({0}, {1}, {0})
        __fadd_rz({0}, {1})
        __fmul_ru({0}, {1})
        __fdiv_rd({0}, {1})
        __fmaf_rz({0}, {1}, {1})
        sqrtf(fabsf({0} - {1}))
        ({0} * 2.5f - {1})
        __fsub_rd({0}, {1})
        __fadd_rd({0}, {1})
        __fsub_ru({0}, {1})
        __fmul_rd({0}, {1})
        __fdiv_rz({0}, {1})
        __fmaf_rd({0}, {1}, {0})
        __fmaf_ru({1}, {0}, {1})
        (min({0}, {1}) + 0.0f)
        (max({0}, {1}) + 0.0f)
        (fmaxf({0}, 0.0f) + 0.0f)
        (fminf({0}, 0.0f) + 0.0f)
        (fmaxf(-0.0f, {0}) + 0.0f)
        signed_as({0}, {1})
        fdimf({0}, {1})
        ((({0} < {1}) ? {1} : {0}) + 0.0f)
    """),
    "d": lines("""
        ({0} + {1})
        ({0} - {1})
        ({0} * {1})
        ({0} / {1})
        (fmin({0}, {1}) + 0.0)
        fma({0}, {1}, {1})
        __dadd_ru({0}, {1})
        __dmul_rz({0}, {1})
        sqrt(fabs({0}))
        (fmax({0}, {1}) + 0.0)
        (min({0}, {1}) + 0.0)
        (fmax({0}, 0.0) + 0.0)
        __dsub_rd({0}, {1})
        __ddiv_rd({0}, {1})
        __fma_rd({0}, {1}, {0})
        __fma_rz({0}, {1}, {1})
        fdim({0}, {1})
        signed_as({0}, {1})
    """),
}
"""Expressions of two operands of their own kind, ``{0}`` and ``{1}``."""
UNARY: Final = {
    "u": lines("""
        ~{u}
        (unsigned){i}
        (unsigned)__popc({u})
        (unsigned)__clz({i})
        __brev({u})
        (unsigned)__ffs({i})
        BITS({f})
        (unsigned){q}
        (unsigned)({q} >> 32)
        __float2uint_rn({f})
        (unsigned){d}
        (unsigned){h}
        table[{u} & 15u]
        in[({u} + {t}) % 256u]
        (unsigned)__popcll({q})
        local[{u} & 3u]
        mix({u}, {i}, {f})
        steps({u} & 255u)
        (unsigned)__clzll({l})
        (unsigned)__ffsll({l})
        (unsigned)bytes[{u} & 7u]
        ({f} != {f} ? 1u : 2u)
        (unsigned)isinf({f})
        __double2uint_ru({d})
    """),
    "i": lines("""
        -(int)({u} >> 1)
        (int){u}
        (int){f}
        __float2int_ru({f})
        (int){c}
        abs((int)({u} >> 1))
        (int){l}
        (int)(short){h}
        __double2int_rn({d})
        (int){d}
        (int)roundf({f})
        __float2int_rd({f})
        (int)bytes[{u} & 7u]
    """),
    "l": lines("""
        (long long){i}
        (long long){q}
        (long long){f}
        (long long){d}
        (long long){i} * {i}
        __float2ll_rd({f})
        llrintf({f})
        __double2ll_ru({d})
    """),
    "q": lines("""
        (unsigned long long){u}
        (unsigned long long){l}
        LONG_BITS({d})
        (unsigned long long){u} * {u}
        __brevll({q})
        (unsigned long long){f}
        __double2ull_rz({d})
        __float2ull_ru({f})
    """),
    "f": lines("""
        (float){i}
        (float){u}
        (float){l}
        (float){q}
        __uint_as_float({u})
        (float){d}
        -({f})
        fabsf({f})
        truncf({f})
        floorf({f})
        rintf({f})
        __int2float_rz({i})
        __ull2float_rd({q})
        __double2float_ru({d})
        (float){c}
        __saturatef({f})
        ceilf({f})
        __frcp_ru({f})
        __frcp_rd({f})
        __fsqrt_rz({f})
        __fsqrt_ru(fabsf({f}))
        __double2float_rz({d})
        __ll2float_ru({l})
        roundf({f})
        nearbyintf({f})
        scalbnf({f}, {i} & 15)
        floats[{u} & 3u]
        __uint2float_ru({u})
    """),
    "d": lines("""
        (double){i}
        (double){u}
        (double){l}
        (double){q}
        (double){f}
        -({d})
        __ll2double_rd({l})
        blend({d}, {q})
        floor({d})
        __longlong_as_double({l})
        __drcp_rz({d})
        __dsqrt_rd(fabs({d}))
        __ull2double_ru({q})
        rint({d})
        ceil({d})
        trunc({d})
        round({d})
        ldexp({d}, {i} & 63)
    """),
    "h": lines("""
        (unsigned short){u}
        (unsigned short)({h} * {h})
        (unsigned short)({h} >> ({u} & 7u))
        (unsigned short)({h} + {c})
        (unsigned short)({u} >> 16)
        (unsigned short)~{h}
    """),
    "c": lines("""
        (signed char){i}
        (signed char)({c} ^ {c})
        (signed char)({c} >> 2)
        (signed char)({u} >> 24)
        bytes[{u} & 7u]
    """),
}
"""Expressions of operands of the kinds in braces."""
CONSTANTS: Final = {
    "u": lines("""
        0u
        1u
        7u
        0x80000000u
        0xffffffffu
        t
        n
    """),
    "i": lines("""
        0
        -1
        100
        0x7fffffff
        (-0x7fffffff - 1)
        (int)t
    """),
    "l": lines("""
        -1ll
        (1ll << 40)
        0x7fffffffffffffffll
    """),
    "q": lines("""
        0ull
        (1ull << 63)
        0xfedcba9876543210ull
    """),
    "f": lines("""
        0.0f
        -0.0f
        1.5f
        3.4e38f
        1e-42f
        -7.25f
        16777217.0f
        (1.0f / 3.0f)
    """),
    "d": lines("""
        0.1
        -1e300
        5e-324
        4503599627370497.5
    """),
    "h": lines("""
        (unsigned short)65535u
    """),
    "c": lines("""
        (signed char)-128
    """),
}
"""Constants, and values that the kernels are given."""
WARP: Final = lines("""
    u{a} = __shfl_xor_sync(~0u, u{b}, {lanes}u);
    u{a} = __shfl_down_sync(~0u, u{b}, {lanes}u, 16);
    u{a} = __shfl_up_sync(~0u, u{b}, {lanes}u, 8);
    i{a} = __shfl_sync(~0u, i{b}, (int)(u{b} & 31u));
    q0 = __shfl_sync(~0u, q1, (int){lanes}, 4);
    f{a} = __shfl_xor_sync(~0u, f{b}, {lanes});
    u{a} ^= __ballot_sync(~0u, {condition});
    u{a} += __any_sync(~0u, {condition}) ? 3u : 4u;
    u{a} += __all_sync(~0u, {condition}) ? 5u : 6u;
    u{a} ^= __match_any_sync(~0u, u{b} & 3u);
    u{a} += __reduce_add_sync(~0u, u{b});
    i{a} = __reduce_min_sync(~0u, i{b});
    u{a} = __reduce_xor_sync(~0u, u{b});
""")
"""Statements to which all lanes of a warp come."""
PART: Final = lines("""
    u{a} += __reduce_add_sync(part, u{b});
    u{a} ^= __ballot_sync(part, {condition});
    u{a} += __popc(part) + __ffs(part);
    i{a} = __shfl_sync(part, i{b}, __ffs(part) - 1);
    f{a} = __shfl_sync(part, f{b}, 31 - __clz(part));
    u{a} ^= __match_any_sync(part, u{b} & 3u);
    i{a} = __reduce_max_sync(part, i{b});
    u{a} += __all_sync(part, {condition}) ? 5u : 6u;
""")
"""Statements to which the lanes of the mask ``part`` come."""
ATOMIC: Final = lines("""
    atomicAdd(&cells[0], {u});
    atomicMax(&cells[1], {u});
    atomicMin((int *)&cells[2], {i});
    atomicXor(&cells[3], {u});
    atomicOr(&cells[4], {u});
""")
"""Statements of single threads, on words that all threads share."""
