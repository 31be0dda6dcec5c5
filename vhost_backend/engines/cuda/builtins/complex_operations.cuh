// Operations on single complex elements, as numpy has them.
#ifndef CUDA_BUILTINS_COMPLEX_OPERATIONS_CUH
#define CUDA_BUILTINS_COMPLEX_OPERATIONS_CUH

#include "math_operations.cuh"

namespace vgc
{
/* A complex number. */
template <class T> struct Pair {
    T real, imag;
};

/* Products that do not become part of a fused operation: a number times its conjugate is real. */
__device__ inline float product(float a, float b)
{
    return __fmul_rn(a, b);
}
__device__ inline double product(double a, double b)
{
    return __dmul_rn(a, b);
}

template <class T> __device__ Pair<T> multiply(Pair<T> a, Pair<T> b)
{
    return {product(a.real, b.real) - product(a.imag, b.imag), product(a.real, b.imag) + product(a.imag, b.real)};
}

/* By the larger part of the divisor, so that nothing overflows on the way [Smith's algorithm]. */
template <class T> __device__ Pair<T> divide(Pair<T> a, Pair<T> b)
{
    T real = FloatAbsolute::of(b.real), imag = FloatAbsolute::of(b.imag);
    if (real == 0 && imag == 0)
        return {a.real / real, a.imag / real};
    if (real >= imag) {
        T ratio = b.imag / b.real, scale = 1 / (b.real + b.imag * ratio);
        return {(a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale};
    }
    T ratio = b.real / b.imag, scale = 1 / (b.imag + b.real * ratio);
    return {(a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale};
}

struct ComplexBinary {
    template <class T> static __device__ Pair<T> of(const math_call &call, Pair<T> a, Pair<T> b)
    {
        switch (call.operation) {
        case MATH_ADD:
            return {a.real + b.real, a.imag + b.imag};
        case MATH_SUBTRACT:
            return {a.real - b.real, a.imag - b.imag};
        case MATH_MULTIPLY:
            return multiply(a, b);
        default:
            return divide(a, b);
        }
    }
};

struct ComplexComparison {
    template <class T> static __device__ unsigned char of(const math_call &call, Pair<T> a, Pair<T> b)
    {
        bool is_equal = a.real == b.real && a.imag == b.imag;
        return is_equal == (call.operation == MATH_EQUAL);
    }
};

struct ComplexJoin {
    template <class T> static __device__ Pair<T> of(const math_call &, T a, T b)
    {
        return {a, b};
    }
};

struct ComplexUnary {
    template <class T> static __device__ Pair<T> of(const math_call &call, Pair<T> a)
    {
        return {call.operation == MATH_NEGATIVE ? -a.real : a.real, -a.imag};
    }
};

struct ComplexReal {
    static __device__ float of(const math_call &call, Pair<float> a)
    {
        return call.operation == MATH_ABSOLUTE ? hypotf(a.real, a.imag) : atan2f(a.imag, a.real);
    }
    static __device__ double of(const math_call &call, Pair<double> a)
    {
        return call.operation == MATH_ABSOLUTE ? hypot(a.real, a.imag) : atan2(a.imag, a.real);
    }
};
} // namespace vgc

#endif
