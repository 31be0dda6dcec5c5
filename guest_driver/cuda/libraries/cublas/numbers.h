/* Arithmetic of the numbers that cuBLAS works on: float, double, and complex numbers, which lie in memory as cuComplex.
 */
#pragma once
#include <cuda_runtime.h>

#define BLAS_BOTH static inline __host__ __device__

namespace blas
{

typedef long long i64;

template <class R> struct alignas(2 * sizeof(R)) complex {
    R x, y;
};

template <class T> struct number {
    typedef T real;
    struct lone; /* only complex numbers have one: a real number in their place */
    static constexpr bool is_complex = false;
};
template <class R> struct number<complex<R>> {
    typedef R real;
    typedef R lone;
    static constexpr bool is_complex = true;
};
template <class T> using real_of = typename number<T>::real;

template <class R> BLAS_BOTH complex<R> operator+(complex<R> a, complex<R> b)
{
    return {a.x + b.x, a.y + b.y};
}
template <class R> BLAS_BOTH complex<R> operator-(complex<R> a, complex<R> b)
{
    return {a.x - b.x, a.y - b.y};
}
template <class R> BLAS_BOTH complex<R> operator-(complex<R> a)
{
    return {-a.x, -a.y};
}
template <class R> BLAS_BOTH complex<R> operator*(complex<R> a, complex<R> b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <class R> BLAS_BOTH complex<R> operator*(R a, complex<R> b)
{
    return {a * b.x, a * b.y};
}
template <class R> BLAS_BOTH complex<R> &operator+=(complex<R> &a, complex<R> b)
{
    return a = a + b;
}
template <class R> BLAS_BOTH bool operator==(complex<R> a, complex<R> b)
{
    return a.x == b.x && a.y == b.y;
}

BLAS_BOTH float magnitude(float x)
{
    return x < 0 ? -x : x;
}
BLAS_BOTH double magnitude(double x)
{
    return x < 0 ? -x : x;
}
/* The sum of the parts' magnitudes, which BLAS takes for the size of a complex number. */
template <class R> BLAS_BOTH R magnitude(complex<R> x)
{
    return magnitude(x.x) + magnitude(x.y);
}

/* Scaled by the divisor, so that its square neither overflows nor underflows. */
template <class R> BLAS_BOTH complex<R> operator/(complex<R> a, complex<R> b)
{
    const R scale = 1 / magnitude(b);
    const complex<R> top = scale * a, bottom = scale * b;
    const R inverse = 1 / (bottom.x * bottom.x + bottom.y * bottom.y);
    return {(top.x * bottom.x + top.y * bottom.y) * inverse, (top.y * bottom.x - top.x * bottom.y) * inverse};
}

template <class T> BLAS_BOTH T conjugate(T x)
{
    return x;
}
template <class R> BLAS_BOTH complex<R> conjugate(complex<R> x)
{
    return {x.x, -x.y};
}
template <class T> BLAS_BOTH T conjugate_if(bool asked, T x)
{
    return asked ? conjugate(x) : x;
}
template <class T> BLAS_BOTH T real_part(T x)
{
    return x;
}
template <class R> BLAS_BOTH complex<R> real_part(complex<R> x)
{
    return {x.x, 0};
}

template <class T> struct unit {
    BLAS_BOTH T one()
    {
        return 1;
    }
};
template <class R> struct unit<complex<R>> {
    BLAS_BOTH complex<R> one()
    {
        return {1, 0};
    }
};
template <class T> BLAS_BOTH T one()
{
    return unit<T>::one();
}
template <class T> BLAS_BOTH T zero()
{
    return T{};
}

/* A factor as a number of type T: itself, or a complex number without an imaginary part. */
template <class T> BLAS_BOTH T widen_factor(T x)
{
    return x;
}
template <class T> BLAS_BOTH T widen_factor(typename number<T>::lone x)
{
    return {x, 0};
}

/* A factor such as alpha: a number of the host's, or one that the device reads when the kernel runs. */
template <class T> struct scalar {
    T value;
    const T *address; /* NULL: `value` counts */
    __device__ T get() const
    {
        return address ? *address : value;
    }
};

/* Element i of n, `step` apart; a negative step begins at the far end. */
template <class T> struct vector {
    T *first;
    i64 step;
    __device__ T &operator[](i64 i) const
    {
        return first[i * step];
    }
};
template <class T> BLAS_BOTH vector<T> vector_of(T *data, i64 n, i64 step)
{
    return {step < 0 ? data + (1 - n) * step : data, step};
}

} // namespace blas
