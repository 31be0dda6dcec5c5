/* Numbers of cuBLAS, with the functions that decompositions need. */
#pragma once
#include "../cublas/numbers.h"
#include <cuComplex.h>

namespace solver
{
using namespace blas;

BLAS_BOTH float root(float x)
{
    return sqrtf(x);
}
BLAS_BOTH double root(double x)
{
    return sqrt(x);
}
BLAS_BOTH float longer(float x, float y)
{
    return hypotf(x, y);
}
BLAS_BOTH double longer(double x, double y)
{
    return hypot(x, y);
}

template <class R> BLAS_BOTH R re(R x)
{
    return x;
}
template <class R> BLAS_BOTH R re(complex<R> x)
{
    return x.x;
}
template <class R> BLAS_BOTH R im(R)
{
    return 0;
}
template <class R> BLAS_BOTH R im(complex<R> x)
{
    return x.y;
}
/* The square of the absolute value. */
template <class R> BLAS_BOTH R square(R x)
{
    return x * x;
}
template <class R> BLAS_BOTH R square(complex<R> x)
{
    return x.x * x.x + x.y * x.y;
}
template <class R> BLAS_BOTH R absolute(R x)
{
    return x < 0 ? -x : x;
}
template <class R> BLAS_BOTH R absolute(complex<R> x)
{
    return longer(x.x, x.y);
}

template <class T> struct made_of {
    static inline __host__ __device__ T real(T x)
    {
        return x;
    }
};
template <class R> struct made_of<complex<R>> {
    static inline __host__ __device__ complex<R> real(R x)
    {
        return {x, 0};
    }
};
template <class T> BLAS_BOTH T from_real(real_of<T> x)
{
    return made_of<T>::real(x);
}

template <class T> struct precision;
template <> struct precision<float> {
    static constexpr float epsilon = 1.1920929e-7f, smallest = 1.17549435e-38f;
};
template <> struct precision<double> {
    static constexpr double epsilon = 2.220446049250313e-16, smallest = 2.2250738585072014e-308;
};
template <class R> struct precision<complex<R>> : precision<R> {
};

/* The API's types, as kernels compute with them. */
template <class T> struct inside {
    typedef T type;
};
template <> struct inside<cuComplex> {
    typedef complex<float> type;
};
template <> struct inside<cuDoubleComplex> {
    typedef complex<double> type;
};
template <class T> static inline typename inside<T>::type *in(T *at)
{
    return reinterpret_cast<typename inside<T>::type *>(at);
}
template <class T> static inline const typename inside<T>::type *in(const T *at)
{
    return reinterpret_cast<const typename inside<T>::type *>(at);
}
} // namespace solver
