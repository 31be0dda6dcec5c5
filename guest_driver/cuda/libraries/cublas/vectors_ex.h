/* Vectors of half precision and bfloat16: sums and factors are of single precision. One unit per type. */
#pragma once
#include "vectors.h"

namespace blas
{

/* Functions behind AxpyEx and its fellows for one type; factors and results by address. */
struct vector_functions {
    cublasStatus_t (*axpy)(cublasHandle_t, i64 n, const float *alpha, const void *x, i64 incx, void *y, i64 incy);
    cublasStatus_t (*scal)(cublasHandle_t, i64 n, const float *alpha, void *x, i64 incx);
    cublasStatus_t (*dot)(cublasHandle_t, i64 n, const void *x, i64 incx, const void *y, i64 incy, void *result);
    cublasStatus_t (*nrm2)(cublasHandle_t, i64 n, const void *x, i64 incx, void *result);
    cublasStatus_t (*rot)(cublasHandle_t, i64 n, void *x, i64 incx, void *y, i64 incy, const void *c, const void *s);
};
const vector_functions &half_vectors(), &bfloat_vectors();

template <class T> __global__ void axpy_narrow(i64 n, scalar<float> alpha, vector<const T> x, vector<T> y)
{
    const float factor = alpha.get();
    BLAS_EACH(i, n) y[i] = (T)(factor * (float)x[i] + (float)y[i]);
}
template <class T> __global__ void scal_narrow(i64 n, scalar<float> alpha, vector<T> x)
{
    const float factor = alpha.get();
    BLAS_EACH(i, n) x[i] = (T)(factor * (float)x[i]);
}
template <class T> __global__ void rot_narrow(i64 n, vector<T> x, vector<T> y, scalar<T> c, scalar<T> s)
{
    const float cosine = (float)c.get(), sine = (float)s.get();
    BLAS_EACH(i, n)
    {
        const float left = (float)x[i], right = (float)y[i];
        x[i] = (T)(cosine * left + sine * right);
        y[i] = (T)(cosine * right - sine * left);
    }
}
template <class T> struct dot_narrow {
    typedef T result;
    float sum;
    __device__ void clear()
    {
        sum = 0;
    }
    __device__ void take(T x, T y, i64)
    {
        sum += (float)x * (float)y;
    }
    __device__ void join(const dot_narrow &other)
    {
        sum += other.sum;
    }
    __device__ result finish() const
    {
        return (T)sum;
    }
};
template <class T> struct nrm2_narrow {
    typedef T result;
    squares<float> sum;
    __device__ void clear()
    {
        sum.clear();
    }
    __device__ void take(T x, T, i64)
    {
        sum.take((float)x);
    }
    __device__ void join(const nrm2_narrow &other)
    {
        sum.join(other.sum);
    }
    __device__ result finish() const
    {
        return (T)sum.root();
    }
};

template <class T> struct narrow_vectors {
    static cublasStatus_t axpy(cublasHandle_t handle, i64 n, const float *alpha, const void *x, i64 incx, void *y,
                               i64 incy)
    {
        const scalar<float> factor = scalar_of(handle, alpha);
        if (n <= 0 || is(factor, 0.0f))
            return CUBLAS_STATUS_SUCCESS;
        axpy_narrow<T><<<BLAS_GRID(n)>>>(n, factor, vector_of((const T *)x, n, incx), vector_of((T *)y, n, incy));
        return launched();
    }
    static cublasStatus_t scal(cublasHandle_t handle, i64 n, const float *alpha, void *x, i64 incx)
    {
        if (n <= 0 || incx <= 0)
            return CUBLAS_STATUS_SUCCESS;
        scal_narrow<T><<<BLAS_GRID(n)>>>(n, scalar_of(handle, alpha), vector_of((T *)x, n, incx));
        return launched();
    }
    static cublasStatus_t dot(cublasHandle_t handle, i64 n, const void *x, i64 incx, const void *y, i64 incy,
                              void *result)
    {
        return sum_of_two<dot_narrow<T>>(handle, n, (const T *)x, incx, (const T *)y, incy, (T *)result);
    }
    static cublasStatus_t nrm2(cublasHandle_t handle, i64 n, const void *x, i64 incx, void *result)
    {
        return sum_of_one<nrm2_narrow<T>>(handle, n, (const T *)x, incx, (T *)result);
    }
    static cublasStatus_t rot(cublasHandle_t handle, i64 n, void *x, i64 incx, void *y, i64 incy, const void *c,
                              const void *s)
    {
        if (n <= 0)
            return CUBLAS_STATUS_SUCCESS;
        rot_narrow<T><<<BLAS_GRID(n)>>>(n, vector_of((T *)x, n, incx), vector_of((T *)y, n, incy),
                                        scalar_of(handle, (const T *)c), scalar_of(handle, (const T *)s));
        return launched();
    }
};

} // namespace blas

#define BLAS_NARROW_VECTORS(name, T)                                                                                   \
    const blas::vector_functions &blas::name()                                                                         \
    {                                                                                                                  \
        typedef narrow_vectors<T> all;                                                                                 \
        static const vector_functions functions{all::axpy, all::scal, all::dot, all::nrm2, all::rot};                  \
        return functions;                                                                                              \
    }
