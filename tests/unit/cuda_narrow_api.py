"""Functions of CUDA's headers for small floating-point formats, as its documentation lists them."""

from __future__ import annotations

from typing import Final

_MODES: Final = ("rn", "rz", "rd", "ru")
_INTEGERS: Final = {
    "short": "short",
    "ushort": "unsigned short",
    "int": "int",
    "uint": "unsigned",
    "ll": "long long",
    "ull": "unsigned long long",
}
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu")
_FUNCTIONS: Final = (
    *("ceil", "cos", "exp", "exp10", "exp2", "floor", "log", "log10", "log2", "rcp", "rint", "rsqrt", "sin", "sqrt"),
    *("tanh", "tanh_approx", "trunc"),
)


def sixteen_bits(type_: str, pair: str, name: str) -> list[str]:
    """Declarations of cuda_fp16.h (``__half``, ``__half2``, ``half``) or of cuda_bf16.h."""
    found = [
        *(f"{type_} __float2{name}_{mode}(float)" for mode in _MODES),
        *(f"{type_} __{short}2{name}_{mode}({long})" for short, long in _INTEGERS.items() for mode in _MODES),
        *(f"{long} __{name}2{short}_{mode}({type_})" for short, long in _INTEGERS.items() for mode in _MODES),
        *(f"{type_} __float2{name}(float)", f"{type_} __double2{name}(double)", f"float __{name}2float({type_})"),
        *(f"signed char __{name}2char_rz({type_})", f"unsigned char __{name}2uchar_rz({type_})"),
        *(f"short __{name}_as_short({type_})", f"unsigned short __{name}_as_ushort({type_})"),
        *(f"{type_} __short_as_{name}(short)", f"{type_} __ushort_as_{name}(unsigned short)"),
        *(f"{pair} __float2{name}2_rn(float)", f"{pair} __floats2{name}2_rn(float, float)"),
        *(f"{pair} __float22{name}2_rn(float2)", f"float2 __{name}22float2({pair})"),
        *(f"{pair} __{name}2{name}2({type_})", f"{pair} __halves2{name}2({type_}, {type_})"),
        *(f"{pair} make_{name}2({type_}, {type_})", f"{pair} __lowhigh2highlow({pair})"),
        *(f"{type_} __{half}2{name}({pair})" for half in ("low", "high")),
        *(f"float __{half}2float({pair})" for half in ("low", "high")),
        *(f"{pair} __{half}2{name}2({pair})" for half in ("low", "high")),
        *(f"{pair} __{half}s2{name}2({pair}, {pair})" for half in ("low", "high")),
    ]
    for operation in ("add", "sub", "mul"):
        for suffix in ("", "_rn", "_sat"):
            found += [
                f"{type_} __h{operation}{suffix}({type_}, {type_})",
                f"{pair} __h{operation}2{suffix}({pair}, {pair})",
            ]
    for suffix in ("", "_sat", "_relu"):
        found += [
            f"{type_} __hfma{suffix}({type_}, {type_}, {type_})",
            f"{pair} __hfma2{suffix}({pair}, {pair}, {pair})",
        ]
    for operation in ("min", "max"):
        for suffix in ("", "_nan"):
            found += [
                f"{type_} __h{operation}{suffix}({type_}, {type_})",
                f"{pair} __h{operation}2{suffix}({pair}, {pair})",
            ]
    found += [
        *(f"{type_} __hdiv({type_}, {type_})", f"{pair} __h2div({pair}, {pair})"),
        *(f"{type_} __{one}({type_})" for one in ("habs", "hneg")),
        *(f"{pair} __{one}2({pair})" for one in ("habs", "hneg", "hisnan")),
        *(f"{pair} __hcmadd({pair}, {pair}, {pair})", f"bool __hisnan({type_})", f"int __hisinf({type_})"),
        *(f"{type_} h{function}({type_})" for function in _FUNCTIONS),
        *(f"{pair} h2{function}({pair})" for function in _FUNCTIONS),
        *(f"{type_} atomicAdd({type_} *, {type_})", f"{pair} atomicAdd({pair} *, {pair})"),
    ]
    for comparison in _COMPARISONS:
        found += [
            f"bool __h{comparison}({type_}, {type_})",
            f"bool __hb{comparison}2({pair}, {pair})",
            f"{pair} __h{comparison}2({pair}, {pair})",
            f"unsigned __h{comparison}2_mask({pair}, {pair})",
        ]
    for load in ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv"):
        found += [f"{t} {load}(const {t} *)" for t in (type_, pair)]
    for store in ("__stwb", "__stcg", "__stcs", "__stwt"):
        found += [f"void {store}({t} *, {t})" for t in (type_, pair)]
    for t in (type_, pair):
        found += [f"{t} __shfl_sync(unsigned, {t}, int, int)", f"{t} __shfl_xor_sync(unsigned, {t}, int, int)"]
        found += [f"{t} __shfl_{way}_sync(unsigned, {t}, unsigned, int)" for way in ("up", "down")]
    return found


def _conversions(bits: int, rest: str) -> list[str]:
    one, two = f"__nv_fp{bits}_storage_t", f"__nv_fp{bits}x2_storage_t"
    kind = f"__nv_fp{bits}_interpretation_t"
    from_ = {"float": "float", "double": "double", "halfraw": "__half_raw", "bfloat16raw": "__nv_bfloat16_raw"}
    from2 = {"float2": "float2", "double2": "double2", "halfraw2": "__half2_raw", "bfloat16raw2": "__nv_bfloat162_raw"}
    return [
        *(f"{one} __nv_cvt_{short}_to_fp{bits}({long}, {rest})" for short, long in from_.items()),
        *(f"{two} __nv_cvt_{short}_to_fp{bits}x2({long}, {rest})" for short, long in from2.items()),
        *(
            f"__half_raw __nv_cvt_fp{bits}_to_halfraw({one}, {kind})",
            f"__half2_raw __nv_cvt_fp{bits}x2_to_halfraw2({two}, {kind})",
        ),
    ]


FP16: Final = sixteen_bits("__half", "__half2", "half")
BF16: Final = sixteen_bits("__nv_bfloat16", "__nv_bfloat162", "bfloat16")
FP8: Final = [
    *_conversions(8, "__nv_saturation_t, __nv_fp8_interpretation_t"),
    "__nv_fp8_storage_t __nv_cvt_float_to_e8m0(float, __nv_saturation_t, cudaRoundMode)",
    "__nv_fp8_storage_t __nv_cvt_double_to_e8m0(double, __nv_saturation_t, cudaRoundMode)",
    "__nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw, __nv_saturation_t, cudaRoundMode)",
    "__nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2, __nv_saturation_t, cudaRoundMode)",
    "__nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t)",
    "__nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t)",
]
FP6: Final = _conversions(6, "__nv_fp6_interpretation_t, cudaRoundMode")
FP4: Final = _conversions(4, "__nv_fp4_interpretation_t, cudaRoundMode")
