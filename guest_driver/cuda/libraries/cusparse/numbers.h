// Numbers of the four types as kernels compute with them; complex ones lie in memory as cuComplex does.
#pragma once
#include <cuda_runtime.h>

#define SPARSE_BOTH static inline __host__ __device__

namespace vgc_sparse
{
template <class Real> struct alignas(2 * sizeof(Real)) Complex {
    Real x, y;
};
typedef Complex<float> ComplexSingle;
typedef Complex<double> ComplexDouble;

template <class Number> struct Traits {
    typedef Number Real;
    SPARSE_BOTH Number of(double re, double)
    {
        return (Number)re;
    }
};
template <class R> struct Traits<Complex<R>> {
    typedef R Real;
    SPARSE_BOTH Complex<R> of(double re, double im)
    {
        return {(R)re, (R)im};
    }
};
template <class Number> using RealOf = typename Traits<Number>::Real;
template <class Number> SPARSE_BOTH Number number(double re, double im = 0)
{
    return Traits<Number>::of(re, im);
}

template <class R> SPARSE_BOTH Complex<R> operator+(Complex<R> a, Complex<R> b)
{
    return {a.x + b.x, a.y + b.y};
}
template <class R> SPARSE_BOTH Complex<R> operator-(Complex<R> a, Complex<R> b)
{
    return {a.x - b.x, a.y - b.y};
}
template <class R> SPARSE_BOTH Complex<R> operator-(Complex<R> a)
{
    return {-a.x, -a.y};
}
template <class R> SPARSE_BOTH Complex<R> operator*(Complex<R> a, Complex<R> b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
// By Smith: the divisor's square might overflow.
template <class R> SPARSE_BOTH Complex<R> operator/(Complex<R> a, Complex<R> b)
{
    const bool wide = (b.x < 0 ? -b.x : b.x) >= (b.y < 0 ? -b.y : b.y);
    const R ratio = wide ? b.y / b.x : b.x / b.y;
    const R scale = 1 / (wide ? b.x + b.y * ratio : b.x * ratio + b.y);
    return wide ? Complex<R>{(a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale}
                : Complex<R>{(a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale};
}

template <class Real> SPARSE_BOTH Real conjugate(Real a)
{
    return a;
}
template <class R> SPARSE_BOTH Complex<R> conjugate(Complex<R> a)
{
    return {a.x, -a.y};
}
template <class Real> SPARSE_BOTH Real real_part(Real a)
{
    return a;
}
template <class R> SPARSE_BOTH R real_part(Complex<R> a)
{
    return a.x;
}
template <class Real> SPARSE_BOTH bool is_zero(Real a)
{
    return a == 0;
}
template <class R> SPARSE_BOTH bool is_zero(Complex<R> a)
{
    return a.x == 0 && a.y == 0;
}
template <class Real> static inline __device__ Real magnitude(Real a)
{
    return a < 0 ? -a : a;
}
template <class R> static inline __device__ R magnitude(Complex<R> a)
{
    const R x = magnitude(a.x), y = magnitude(a.y), large = x > y ? x : y, small = x > y ? y : x;
    return large == 0 ? large : large * sqrt(1 + small / large * (small / large));
}
template <class Real> static inline __device__ void add_to(Real *at, Real value)
{
    atomicAdd(at, value);
}
template <class R> static inline __device__ void add_to(Complex<R> *at, Complex<R> value)
{
    atomicAdd(&at->x, value.x);
    atomicAdd(&at->y, value.y);
}

// Conversion of what is stored to what is computed with; narrow.h has it for numbers of 16 bits.
template <class Number, class Stored> struct Widening {
    SPARSE_BOTH Number of(Stored value)
    {
        return (Number)value;
    }
};
template <class R, class Stored> struct Widening<Complex<R>, Stored> {
    SPARSE_BOTH Complex<R> of(Stored value)
    {
        return {(R)value, 0};
    }
};
template <class R> struct Widening<Complex<R>, Complex<R>> {
    SPARSE_BOTH Complex<R> of(Complex<R> value)
    {
        return value;
    }
};
template <class Number, class Stored> SPARSE_BOTH Number widen(Stored value)
{
    return Widening<Number, Stored>::of(value);
}
template <class Stored, class Number> SPARSE_BOTH Stored narrow(Number value)
{
    return Widening<Stored, Number>::of(value);
}
} // namespace vgc_sparse
