/* Types and functions of a 16-bit format; cuda_fp16.h and cuda_bf16.h include it, after they define
 *   __VGC_T, __VGC_T2          names of the type and of the pair
 *   __VGC_RAW, __VGC_RAW2      names of the types of their bits
 *   __VGC_FORMAT               a format of vgc_narrow.h
 *   __VGC_OTHER                the type of the other format
 *   __VGC_NAME(before, after)  before, the format's name in functions, after */

struct __align__(2) __VGC_RAW { unsigned short x; };
struct __align__(4) __VGC_RAW2 { unsigned short x, y; };

struct __align__(2) __VGC_T {
    unsigned short __x;

    __VGC_T() = default;
    __host__ __device__ __forceinline__ constexpr __VGC_T(const __VGC_RAW &raw) : __x(raw.x) {}
    __host__ __device__ __forceinline__ explicit __VGC_T(__VGC_OTHER x);
    __host__ __device__ __forceinline__ __VGC_T(float x) : __x(__VGC_FORMAT::narrow(x)) {}
    __host__ __device__ __forceinline__ __VGC_T(double x) : __x(__vgc_narrow<__VGC_FORMAT, __VGC_RN>(x)) {}
#ifdef __VGC_FLOAT16__
    __host__ __device__ __forceinline__ __VGC_T(_Float16 x) : __x(__VGC_FORMAT::narrow((float)x)) {}
#endif
#define __VGC_FROM(type, as)                                                                                                           \
    __host__ __device__ __forceinline__ __VGC_T(type x) : __x(__vgc_narrow<__VGC_FORMAT, __VGC_RN>((as)x)) {}
    __VGC_FROM(short, float) __VGC_FROM(unsigned short, float) __VGC_FROM(int, int) __VGC_FROM(unsigned, unsigned)
    __VGC_FROM(long, long long) __VGC_FROM(unsigned long, unsigned long long)
    __VGC_FROM(long long, long long) __VGC_FROM(unsigned long long, unsigned long long)
#undef __VGC_FROM

    __host__ __device__ __forceinline__ operator __VGC_RAW() const { return {__x}; }
    __host__ __device__ __forceinline__ operator __VGC_RAW() const volatile { return {__x}; }
    __host__ __device__ __forceinline__ operator float() const { return __VGC_FORMAT::widen(__x); }
    __host__ __device__ __forceinline__ constexpr operator bool() const { return (__x & 0x7fff) != 0; }
#define __VGC_TO(type)                                                                                                                 \
    __host__ __device__ __forceinline__ operator type() const { return __vgc_to_integer<type, __VGC_RZ>(__VGC_FORMAT::widen(__x)); }
    __VGC_TO(char) __VGC_TO(signed char) __VGC_TO(unsigned char) __VGC_TO(short) __VGC_TO(unsigned short) __VGC_TO(int)
    __VGC_TO(unsigned) __VGC_TO(long) __VGC_TO(unsigned long) __VGC_TO(long long) __VGC_TO(unsigned long long)
#undef __VGC_TO

    __host__ __device__ __forceinline__ volatile __VGC_T &operator=(const __VGC_RAW &raw) volatile { __x = raw.x; return *this; }
};

struct __align__(4) __VGC_T2 {
    __VGC_T x, y;

    __VGC_T2() = default;
    __host__ __device__ __forceinline__ constexpr __VGC_T2(const __VGC_T &a, const __VGC_T &b) : x(a), y(b) {}
    __host__ __device__ __forceinline__ __VGC_T2(const __VGC_RAW2 &raw) : x(__VGC_RAW{raw.x}), y(__VGC_RAW{raw.y}) {}
    __host__ __device__ __forceinline__ operator __VGC_RAW2() const { return {x.__x, y.__x}; }
};

/* ---- bits ---- */

__VGC_HD__ __VGC_T __VGC_NAME(__ushort_as_, )(unsigned short bits) { return __VGC_RAW{bits}; }
__VGC_HD__ __VGC_T __VGC_NAME(__short_as_, )(short bits) { return __VGC_RAW{(unsigned short)bits}; }
__VGC_HD__ unsigned short __VGC_NAME(__, _as_ushort)(__VGC_T x) { return x.__x; }
__VGC_HD__ short __VGC_NAME(__, _as_short)(__VGC_T x) { return (short)x.__x; }

/* ---- conversions ---- */

__VGC_HD__ float __VGC_NAME(__, 2float)(__VGC_T x) { return __VGC_FORMAT::widen(x.__x); }
__VGC_HD__ __VGC_T __VGC_NAME(__float2, )(float x) { return __VGC_RAW{__VGC_FORMAT::narrow(x)}; }
__VGC_HD__ __VGC_T __VGC_NAME(__double2, )(double x) { return __VGC_RAW{__vgc_narrow<__VGC_FORMAT, __VGC_RN>(x)}; }
#define __VGC_FROM(name, type, as, suffix, mode)                                                                                       \
    __VGC_HD__ __VGC_T __VGC_NAME(name, suffix)(type x) { return __VGC_RAW{__vgc_narrow<__VGC_FORMAT, mode>((as)x)}; }
#define __VGC_TO(suffix, type, mode)                                                                                                   \
    __VGC_HD__ type __VGC_NAME(__, suffix)(__VGC_T x) { return __vgc_to_integer<type, mode>(__VGC_FORMAT::widen(x.__x)); }
#define __VGC_MODE(suffix, mode)                                                                                                       \
    __VGC_FROM(__float2, float, float, suffix, mode) __VGC_FROM(__short2, short, float, suffix, mode)                                  \
    __VGC_FROM(__ushort2, unsigned short, float, suffix, mode) __VGC_FROM(__int2, int, int, suffix, mode)                              \
    __VGC_FROM(__uint2, unsigned, unsigned, suffix, mode) __VGC_FROM(__ll2, long long, long long, suffix, mode)                        \
    __VGC_FROM(__ull2, unsigned long long, unsigned long long, suffix, mode)                                                           \
    __VGC_TO(2short##suffix, short, mode) __VGC_TO(2ushort##suffix, unsigned short, mode) __VGC_TO(2int##suffix, int, mode)             \
    __VGC_TO(2uint##suffix, unsigned, mode) __VGC_TO(2ll##suffix, long long, mode) __VGC_TO(2ull##suffix, unsigned long long, mode)
__VGC_MODE(_rn, __VGC_RN) __VGC_MODE(_rz, __VGC_RZ) __VGC_MODE(_rd, __VGC_RD) __VGC_MODE(_ru, __VGC_RU)
__VGC_TO(2char_rz, signed char, __VGC_RZ) __VGC_TO(2uchar_rz, unsigned char, __VGC_RZ)
#undef __VGC_MODE
#undef __VGC_TO
#undef __VGC_FROM

/* ---- pairs ---- */

__VGC_HD__ __VGC_T2 __VGC_NAME(make_, 2)(__VGC_T x, __VGC_T y) { return __VGC_T2(x, y); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__float2, 2_rn)(float x) { return __VGC_T2(__VGC_T(x), __VGC_T(x)); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__floats2, 2_rn)(float x, float y) { return __VGC_T2(__VGC_T(x), __VGC_T(y)); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__float22, 2_rn)(float2 x) { return __VGC_T2(__VGC_T(x.x), __VGC_T(x.y)); }
__VGC_HD__ float2 __VGC_NAME(__, 22float2)(__VGC_T2 x) { return {__VGC_NAME(__, 2float)(x.x), __VGC_NAME(__, 2float)(x.y)}; }
__VGC_HD__ float __low2float(__VGC_T2 x) { return __VGC_NAME(__, 2float)(x.x); }
__VGC_HD__ float __high2float(__VGC_T2 x) { return __VGC_NAME(__, 2float)(x.y); }
__VGC_HD__ __VGC_T __VGC_NAME(__low2, )(__VGC_T2 x) { return x.x; }
__VGC_HD__ __VGC_T __VGC_NAME(__high2, )(__VGC_T2 x) { return x.y; }
__VGC_HD__ __VGC_T2 __VGC_NAME(__low2, 2)(__VGC_T2 x) { return __VGC_T2(x.x, x.x); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__high2, 2)(__VGC_T2 x) { return __VGC_T2(x.y, x.y); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__lows2, 2)(__VGC_T2 x, __VGC_T2 y) { return __VGC_T2(x.x, y.x); }
__VGC_HD__ __VGC_T2 __VGC_NAME(__highs2, 2)(__VGC_T2 x, __VGC_T2 y) { return __VGC_T2(x.y, y.y); }
__VGC_HD__ __VGC_T2 __lowhigh2highlow(__VGC_T2 x) { return __VGC_T2(x.y, x.x); }

/* ---- arithmetic ---- */

#define __VGC_BITS __vgc_arithmetic<__VGC_FORMAT>
#define __VGC_1(name, pair, expression)                                                                                                \
    __VGC_HD__ __VGC_T name(__VGC_T p) { const unsigned short a = p.__x; return __VGC_RAW{(unsigned short)(expression)}; }             \
    __VGC_HD__ __VGC_T2 pair(__VGC_T2 p) { return __VGC_T2(name(p.x), name(p.y)); }
#define __VGC_2(name, pair, expression)                                                                                                \
    __VGC_HD__ __VGC_T name(__VGC_T p, __VGC_T q) {                                                                                    \
        const unsigned short a = p.__x, b = q.__x;                                                                                     \
        return __VGC_RAW{expression};                                                                                                  \
    }                                                                                                                                  \
    __VGC_HD__ __VGC_T2 pair(__VGC_T2 p, __VGC_T2 q) { return __VGC_T2(name(p.x, q.x), name(p.y, q.y)); }
#define __VGC_3(name, pair, expression)                                                                                                \
    __VGC_HD__ __VGC_T name(__VGC_T p, __VGC_T q, __VGC_T r) {                                                                         \
        const unsigned short a = p.__x, b = q.__x, c = r.__x;                                                                          \
        return __VGC_RAW{expression};                                                                                                  \
    }                                                                                                                                  \
    __VGC_HD__ __VGC_T2 pair(__VGC_T2 p, __VGC_T2 q, __VGC_T2 r) { return __VGC_T2(name(p.x, q.x, r.x), name(p.y, q.y, r.y)); }
__VGC_1(__habs, __habs2, a & 0x7fff)
__VGC_1(__hneg, __hneg2, a ^ 0x8000)
__VGC_2(__hadd, __hadd2, __VGC_BITS::add(a, b))
__VGC_2(__hsub, __hsub2, __VGC_BITS::sub(a, b))
__VGC_2(__hmul, __hmul2, __VGC_BITS::mul(a, b))
__VGC_2(__hdiv, __h2div, __VGC_BITS::div(a, b))
__VGC_2(__hadd_rn, __hadd2_rn, __VGC_BITS::add(a, b))
__VGC_2(__hsub_rn, __hsub2_rn, __VGC_BITS::sub(a, b))
__VGC_2(__hmul_rn, __hmul2_rn, __VGC_BITS::mul(a, b))
__VGC_2(__hadd_sat, __hadd2_sat, __VGC_BITS::saturate(__VGC_BITS::add(a, b)))
__VGC_2(__hsub_sat, __hsub2_sat, __VGC_BITS::saturate(__VGC_BITS::sub(a, b)))
__VGC_2(__hmul_sat, __hmul2_sat, __VGC_BITS::saturate(__VGC_BITS::mul(a, b)))
__VGC_2(__hmin, __hmin2, __VGC_BITS::min(a, b))
__VGC_2(__hmax, __hmax2, __VGC_BITS::max(a, b))
__VGC_2(__hmin_nan, __hmin2_nan, __VGC_BITS::min_nan(a, b))
__VGC_2(__hmax_nan, __hmax2_nan, __VGC_BITS::max_nan(a, b))
__VGC_3(__hfma, __hfma2, __VGC_BITS::fma(a, b, c))
__VGC_3(__hfma_sat, __hfma2_sat, __VGC_BITS::saturate(__VGC_BITS::fma(a, b, c)))
__VGC_3(__hfma_relu, __hfma2_relu, __VGC_BITS::relu(__VGC_BITS::fma(a, b, c)))
#undef __VGC_1
#undef __VGC_2
#undef __VGC_3
/* a * b + c of complex numbers. */
__VGC_HD__ __VGC_T2 __hcmadd(__VGC_T2 a, __VGC_T2 b, __VGC_T2 c) {
    return __VGC_T2(__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}

#define __VGC_OPERATOR(op, name, pair)                                                                                                 \
    __VGC_HD__ __VGC_T operator op(const __VGC_T &a, const __VGC_T &b) { return name(a, b); }                                          \
    __VGC_HD__ __VGC_T &operator op##=(__VGC_T & a, const __VGC_T &b) { return a = name(a, b); }                                       \
    __VGC_HD__ __VGC_T2 operator op(const __VGC_T2 &a, const __VGC_T2 &b) { return pair(a, b); }                                       \
    __VGC_HD__ __VGC_T2 &operator op##=(__VGC_T2 & a, const __VGC_T2 &b) { return a = pair(a, b); }
__VGC_OPERATOR(+, __hadd, __hadd2) __VGC_OPERATOR(-, __hsub, __hsub2) __VGC_OPERATOR(*, __hmul, __hmul2)
__VGC_OPERATOR(/, __hdiv, __h2div)
#undef __VGC_OPERATOR
__VGC_HD__ __VGC_T operator+(const __VGC_T &a) { return a; }
__VGC_HD__ __VGC_T operator-(const __VGC_T &a) { return __hneg(a); }
__VGC_HD__ __VGC_T2 operator+(const __VGC_T2 &a) { return a; }
__VGC_HD__ __VGC_T2 operator-(const __VGC_T2 &a) { return __hneg2(a); }
#define __VGC_STEP(op, by, type, one)                                                                                                  \
    __VGC_HD__ type &operator op(type & a) { return a = a by one; }                                                                    \
    __VGC_HD__ type operator op(type & a, int) { const type before = a; a = a by one; return before; }
#define __VGC_ONE __VGC_T(__VGC_RAW{__VGC_FORMAT::one})
__VGC_STEP(++, +, __VGC_T, __VGC_ONE) __VGC_STEP(--, -, __VGC_T, __VGC_ONE)
__VGC_STEP(++, +, __VGC_T2, __VGC_T2(__VGC_ONE, __VGC_ONE)) __VGC_STEP(--, -, __VGC_T2, __VGC_T2(__VGC_ONE, __VGC_ONE))
#undef __VGC_STEP

/* ---- comparisons: those that end in u are true if an operand is not a number ---- */

__VGC_HD__ bool __hisnan(__VGC_T a) { return __VGC_BITS::nan(a.__x); }
__VGC_HD__ int __hisinf(__VGC_T a) { return a.__x == __VGC_FORMAT::infinity ? 1 : a.__x == (__VGC_FORMAT::infinity | 0x8000) ? -1 : 0; }
__VGC_HD__ __VGC_T2 __hisnan2(__VGC_T2 a) {
    return __VGC_T2(__VGC_T(__hisnan(a.x) ? 1.0f : 0.0f), __VGC_T(__hisnan(a.y) ? 1.0f : 0.0f));
}
#define __VGC_COMPARE(name, expression)                                                                                                \
    __VGC_HD__ bool __h##name(__VGC_T p, __VGC_T q) {                                                                                  \
        const float a = __VGC_FORMAT::widen(p.__x), b = __VGC_FORMAT::widen(q.__x);                                                    \
        return expression;                                                                                                             \
    }                                                                                                                                  \
    __VGC_HD__ bool __hb##name##2(__VGC_T2 p, __VGC_T2 q) { return __h##name(p.x, q.x) && __h##name(p.y, q.y); }                       \
    __VGC_HD__ unsigned __h##name##2_mask(__VGC_T2 p, __VGC_T2 q) {                                                                    \
        return (__h##name(p.x, q.x) ? 0xffffu : 0u) | (__h##name(p.y, q.y) ? 0xffff0000u : 0u);                                        \
    }                                                                                                                                  \
    __VGC_HD__ __VGC_T2 __h##name##2(__VGC_T2 p, __VGC_T2 q) {                                                                         \
        const __VGC_RAW one = {__VGC_FORMAT::one}, zero = {0};                                                                         \
        return __VGC_T2(__h##name(p.x, q.x) ? one : zero, __h##name(p.y, q.y) ? one : zero);                                           \
    }
__VGC_COMPARE(eq, a == b) __VGC_COMPARE(ne, a < b || a > b) __VGC_COMPARE(lt, a < b) __VGC_COMPARE(le, a <= b)
__VGC_COMPARE(gt, a > b) __VGC_COMPARE(ge, a >= b) __VGC_COMPARE(equ, !(a < b || a > b)) __VGC_COMPARE(neu, !(a == b))
__VGC_COMPARE(ltu, !(a >= b)) __VGC_COMPARE(leu, !(a > b)) __VGC_COMPARE(gtu, !(a <= b)) __VGC_COMPARE(geu, !(a < b))
#undef __VGC_COMPARE
#define __VGC_OPERATOR(op, name)                                                                                                       \
    __VGC_HD__ bool operator op(const __VGC_T &a, const __VGC_T &b) { return __h##name(a, b); }                                        \
    __VGC_HD__ bool operator op(const __VGC_T2 &a, const __VGC_T2 &b) { return __hb##name##2(a, b); }
__VGC_OPERATOR(==, eq) __VGC_OPERATOR(!=, neu) __VGC_OPERATOR(<, lt) __VGC_OPERATOR(<=, le) __VGC_OPERATOR(>, gt)
__VGC_OPERATOR(>=, ge)
#undef __VGC_OPERATOR
#undef __VGC_ONE
#undef __VGC_BITS

#ifdef __CUDACC__
/* ---- functions: those of floats, rounded ---- */

#define __VGC_MATH(name, function)                                                                                                     \
    __VGC_FN__ __VGC_T h##name(__VGC_T a) { return __VGC_T(function(__VGC_FORMAT::widen(a.__x))); }                                    \
    __VGC_FN__ __VGC_T2 h2##name(__VGC_T2 a) { return __VGC_T2(h##name(a.x), h##name(a.y)); }
__VGC_MATH(sqrt, sqrtf) __VGC_MATH(rsqrt, rsqrtf) __VGC_MATH(exp, expf) __VGC_MATH(exp2, exp2f) __VGC_MATH(exp10, exp10f)
__VGC_MATH(log, logf) __VGC_MATH(log2, log2f) __VGC_MATH(log10, log10f) __VGC_MATH(sin, sinf) __VGC_MATH(cos, cosf)
__VGC_MATH(tanh, tanhf) __VGC_MATH(tanh_approx, tanhf) __VGC_MATH(floor, floorf) __VGC_MATH(ceil, ceilf)
__VGC_MATH(trunc, truncf) __VGC_MATH(rint, rintf) __VGC_MATH(rcp, 1.0f /)
#undef __VGC_MATH

/* ---- atomics: those of a pair are two ---- */

__VGC_SCOPES(__VGC_T, atomicAdd, (__VGC_T *address, __VGC_T value),
             return __vgc_update(address, [=] __device__(__VGC_T old) { return __hadd(old, value); });)
__VGC_SCOPES(__VGC_T2, atomicAdd, (__VGC_T2 *address, __VGC_T2 value),
             return __VGC_T2(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));)
#endif
