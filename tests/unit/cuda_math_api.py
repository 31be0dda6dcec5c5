"""Functions of CUDA's math API, as its documentation lists them, with the errors that the programming guide allows."""

from __future__ import annotations

from typing import Final

ULP: Final[dict[str, tuple[int, int]]] = {
    "acos": (2, 2),
    "acosh": (3, 4),
    "asin": (2, 2),
    "asinh": (3, 3),
    "atan": (2, 2),
    "atanh": (2, 3),
    "cbrt": (1, 1),
    "ceil": (0, 0),
    "cos": (2, 2),
    "cosh": (1, 2),
    "cospi": (2, 1),
    "cyl_bessel_i0": (6, 6),
    "cyl_bessel_i1": (6, 6),
    "erf": (2, 2),
    "erfc": (5, 4),
    "erfcinv": (6, 4),
    "erfcx": (4, 4),
    "erfinv": (5, 2),
    "exp": (1, 2),
    "exp10": (1, 2),
    "exp2": (1, 2),
    "expm1": (1, 1),
    "fabs": (0, 0),
    "floor": (0, 0),
    "j0": (7, 9),
    "j1": (7, 9),
    "lgamma": (4, 6),
    "log": (1, 1),
    "log10": (1, 2),
    "log1p": (1, 1),
    "log2": (1, 1),
    "logb": (0, 0),
    "nearbyint": (0, 0),
    "normcdf": (5, 5),
    "normcdfinv": (8, 5),
    "rcbrt": (1, 1),
    "rint": (0, 0),
    "round": (0, 0),
    "rsqrt": (1, 2),
    "sin": (2, 2),
    "sinh": (2, 3),
    "sinpi": (2, 1),
    "sqrt": (0, 0),
    "tan": (2, 4),
    "tanh": (1, 2),
    "tgamma": (10, 5),
    "trunc": (0, 0),
    "y0": (7, 9),
    "y1": (7, 9),
}
"""Errors of functions of one number in units in the last place, for double and for float."""

ULP_2: Final[dict[str, tuple[int, int]]] = {
    "atan2": (2, 3),
    "copysign": (0, 0),
    "fdim": (0, 0),
    "fdivide": (0, 0),
    "fmax": (0, 0),
    "fmin": (0, 0),
    "fmod": (0, 0),
    "hypot": (2, 3),
    "pow": (2, 4),
    "remainder": (0, 0),
    "rhypot": (1, 2),
}
"""Errors of functions of two numbers."""

NEAR_ZEROES: Final = "the C library's error is absolute near the function's zeroes"
BEYOND: Final[dict[tuple[str, str], tuple[int, str]]] = {
    ("j0", "double"): (64, NEAR_ZEROES),
    ("j1", "double"): (64, NEAR_ZEROES),
    ("y0", "double"): (64, NEAR_ZEROES),
    ("y1", "double"): (2048, NEAR_ZEROES),
}
"""Errors here, and their reason, where they are larger than documented: (function, type)."""

ABSENT: Final[dict[str, str]] = {}
"""Documented functions that are not there, and why."""

_MODES: Final = ("rn", "rz", "rd", "ru")
_OTHERS: Final = """
T fma(T, T, T); T frexp(T, int *); int ilogb(T); T jn(int, T); T ldexp(T, int); long long llrint(T); long long llround(T);
long lrint(T); long lround(T); T modf(T, T *); T nan(const char *); T nextafter(T, T); T norm(int, const T *); T norm3d(T, T, T);
T norm4d(T, T, T, T); T remquo(T, T, int *); T rnorm(int, const T *); T rnorm3d(T, T, T); T rnorm4d(T, T, T, T); T scalbln(T, long);
T scalbn(T, int); void sincos(T, T *, T *); void sincospi(T, T *, T *); T yn(int, T)
"""
_FAST: Final = (*("cosf", "exp10f", "expf", "log10f", "log2f", "logf", "saturatef", "sinf", "tanf", "tanhf"),)
_INTEGER: Final = """
unsigned __brev(unsigned); unsigned long long __brevll(unsigned long long); unsigned __byte_perm(unsigned, unsigned, unsigned);
int __clz(int); int __clzll(long long); int __dp2a_hi(int, int, int); unsigned __dp2a_hi(unsigned, unsigned, unsigned);
int __dp2a_hi(short2, char4, int); unsigned __dp2a_hi(ushort2, uchar4, unsigned); int __dp2a_lo(int, int, int);
unsigned __dp2a_lo(unsigned, unsigned, unsigned); int __dp2a_lo(short2, char4, int); unsigned __dp2a_lo(ushort2, uchar4, unsigned);
int __dp4a(int, int, int); unsigned __dp4a(unsigned, unsigned, unsigned); int __dp4a(char4, char4, int);
unsigned __dp4a(uchar4, uchar4, unsigned); int __ffs(int); int __ffsll(long long); unsigned __fns(unsigned, unsigned, int);
unsigned __funnelshift_l(unsigned, unsigned, unsigned); unsigned __funnelshift_lc(unsigned, unsigned, unsigned);
unsigned __funnelshift_r(unsigned, unsigned, unsigned); unsigned __funnelshift_rc(unsigned, unsigned, unsigned);
int __hadd(int, int); int __mul24(int, int); long long __mul64hi(long long, long long); int __mulhi(int, int); int __popc(unsigned);
int __popcll(unsigned long long); int __rhadd(int, int); unsigned __sad(int, int, unsigned); unsigned __uhadd(unsigned, unsigned);
unsigned __umul24(unsigned, unsigned); unsigned long long __umul64hi(unsigned long long, unsigned long long);
unsigned __umulhi(unsigned, unsigned); unsigned __urhadd(unsigned, unsigned); unsigned __usad(unsigned, unsigned, unsigned);
int abs(int); long labs(long); long long llabs(long long); long long llmax(long long, long long); long long llmin(long long, long long);
unsigned umax(unsigned, unsigned); unsigned umin(unsigned, unsigned); int max(int, int); int min(int, int); long max(long, long);
unsigned max(unsigned, unsigned); unsigned min(unsigned, unsigned); unsigned max(int, unsigned); unsigned min(unsigned, int);
unsigned long long max(unsigned long long, long long); unsigned long long min(long long, unsigned long long);
unsigned long long ullmax(unsigned long long, unsigned long long); unsigned long long ullmin(unsigned long long, unsigned long long);
unsigned long max(unsigned long, long); unsigned long min(long, unsigned long)
"""
_CASTS: Final = """
int __double2hiint(double); int __double2loint(double); long long __double_as_longlong(double); int __float_as_int(float);
unsigned __float_as_uint(float); double __hiloint2double(int, int); double __int2double_rn(int); float __int_as_float(int);
double __longlong_as_double(long long); double __uint2double_rn(unsigned); float __uint_as_float(unsigned)
"""
_WORDS_1: Final = ("vabs", "vabsss", "vneg", "vnegss")
_COMPARISONS: Final = ("eq", "ges", "geu", "gts", "gtu", "les", "leu", "lts", "ltu", "ne")
_WORDS_2: Final = (
    *(
        "vabsdiffs",
        "vabsdiffu",
        "vadd",
        "vaddss",
        "vaddus",
        "vavgs",
        "vavgu",
        "vhaddu",
        "vmaxs",
        "vmaxu",
        "vmins",
        "vminu",
    ),
    *(
        "vsads",
        "vsadu",
        "vsub",
        "vsubss",
        "vsubus",
        *(f"vcmp{c}" for c in _COMPARISONS),
        *(f"vset{c}" for c in _COMPARISONS),
    ),
)


def _split(text: str) -> list[str]:
    return [" ".join(one.split()) for one in text.split(";")]


def _with_floats(declaration: str) -> list[str]:
    """A declaration for double, and the same for float under the name that ends in f."""
    result, rest = declaration.split("(", 1)
    type_, name = result.rsplit(" ", 1)
    return [
        f"{type_} {name}({rest}".replace("T", "double"),
        f"{type_} {name}f({rest}".replace("T", "float"),
    ]


def _rounding() -> list[str]:
    found = []
    for mode in _MODES:
        for type_, prefix in (("float", "f"), ("double", "d")):
            found += [f"{type_} __{prefix}{op}_{mode}({type_}, {type_})" for op in ("add", "sub", "mul", "div")]
            found += [f"{type_} __{prefix}{op}_{mode}({type_})" for op in ("rcp", "sqrt")]
        found += [f"float {name}_{mode}(float, float, float)" for name in ("__fmaf", "__fmaf_ieee")]
        found.append(f"double __fma_{mode}(double, double, double)")
        integers = {"int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long"}
        for short, long in integers.items():
            found += [f"{long} __{from_}2{short}_{mode}({from_})" for from_ in ("float", "double")]
            found.append(f"float __{short}2float_{mode}({long})")
            if short.endswith("ll"):
                found.append(f"double __{short}2double_{mode}({long})")
        found.append(f"float __double2float_{mode}(double)")
    return [*found, "float __frsqrt_rn(float)"]


def _words() -> list[str]:
    found = [f"unsigned __{name}{count}(unsigned)" for name in _WORDS_1 for count in (2, 4)]
    found += [f"unsigned __{name}{count}(unsigned, unsigned)" for name in _WORDS_2 for count in (2, 4)]
    for pick in ("max", "min"):
        for part, type_ in (("s32", "int"), ("s16x2", "unsigned"), ("u32", "unsigned"), ("u16x2", "unsigned")):
            for suffix in ("", "_relu") if part.startswith("s") else ("",):
                found += [
                    f"{type_} __vi{kind}_{part}{suffix}({type_}, {type_}, {type_})"
                    for kind in (f"add{pick}", f"{pick}3")
                ]
            flags = "bool *, bool *" if part.endswith("x2") else "bool *"
            found.append(f"{type_} __vib{pick}_{part}({type_}, {type_}, {flags})")
        found += [f"int __vi{pick}_s32_relu(int, int)", f"unsigned __vi{pick}_s16x2_relu(unsigned, unsigned)"]
    return found


FUNCTIONS: Final[dict[str, list[str]]] = {
    "one number": [d for name in ULP for d in _with_floats(f"T {name}(T)")],
    "two numbers": [d for name in ULP_2 for d in _with_floats(f"T {name}(T, T)")],
    "other": [d for one in _split(_OTHERS) for d in _with_floats(one)],
    "float overloads": [f"float {name}(float)" for name in ULP]
    + [f"float {name}(float, float)" for name in ULP_2 if name != "rhypot"],
    "fast": [
        *(f"float __{name}(float)" for name in _FAST),
        *("float __powf(float, float)", "float __fdividef(float, float)", "void __sincosf(float, float *, float *)"),
    ],
    "rounding": _rounding(),
    "integers": _split(_INTEGER),
    "casts": _split(_CASTS),
    "words": _words(),
}
"""Declarations by group."""
