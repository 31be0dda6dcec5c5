/* Vectors with vectors: kernels, and the functions that launch them. */
#pragma once
#include "context.h"

namespace blas
{

constexpr int THREADS = 256;
constexpr int MOST_BLOCKS = 1024;

static inline int blocks_for(i64 n)
{
    const i64 blocks = (n + THREADS - 1) / THREADS;
    return (int)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

#define BLAS_EACH(i, n) for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < (n); i += (i64)gridDim.x * THREADS)

template <class T> __global__ void axpy(i64 n, scalar<T> alpha, vector<const T> x, vector<T> y)
{
    const T factor = alpha.get();
    BLAS_EACH(i, n) y[i] += factor * x[i];
}
template <class T, class F> __global__ void scal(i64 n, scalar<F> alpha, vector<T> x)
{
    const F factor = alpha.get();
    BLAS_EACH(i, n) x[i] = factor * x[i];
}
template <class T> __global__ void copy(i64 n, vector<const T> x, vector<T> y)
{
    BLAS_EACH(i, n) y[i] = x[i];
}
template <class T> __global__ void swap(i64 n, vector<T> x, vector<T> y)
{
    BLAS_EACH(i, n)
    {
        const T kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}
template <class T, class S> __global__ void rot(i64 n, vector<T> x, vector<T> y, scalar<real_of<T>> c, scalar<S> s)
{
    const real_of<T> cosine = c.get();
    const S sine = s.get();
    BLAS_EACH(i, n)
    {
        const T left = x[i], right = y[i];
        x[i] = cosine * left + sine * right;
        y[i] = cosine * right - conjugate(sine) * left;
    }
}

/* ---- sums: each block leaves its part, and the last step joins them in a fixed order ---- */

template <class T, bool CONJUGATES> struct dot_sum {
    typedef T result;
    T sum;
    __device__ void clear()
    {
        sum = zero<T>();
    }
    __device__ void take(T x, T y, i64)
    {
        sum += (CONJUGATES ? conjugate(x) : x) * y;
    }
    __device__ void join(const dot_sum &other)
    {
        sum += other.sum;
    }
    __device__ result finish() const
    {
        return sum;
    }
};
template <class T> struct asum_sum {
    typedef real_of<T> result;
    result sum;
    __device__ void clear()
    {
        sum = 0;
    }
    __device__ void take(T x, T, i64)
    {
        sum += magnitude(x);
    }
    __device__ void join(const asum_sum &other)
    {
        sum += other.sum;
    }
    __device__ result finish() const
    {
        return sum;
    }
};
/* Squares of floats neither overflow nor vanish in double; for those of doubles, very large and very small numbers are
 * scaled and summed by themselves. */
template <class R> struct squares;
template <> struct squares<float> {
    double sum;
    __device__ void clear()
    {
        sum = 0;
    }
    __device__ void take(float x)
    {
        sum += (double)x * x;
    }
    __device__ void join(const squares &other)
    {
        sum += other.sum;
    }
    __device__ float root() const
    {
        return (float)sqrt(sum);
    }
};
template <> struct squares<double> {
    double large, middle, small;
    __device__ void clear()
    {
        large = middle = small = 0;
    }
    __device__ void take(double x)
    {
        const double size = fabs(x), down = size * 0x1p-600, up = size * 0x1p+600;
        large += size > 0x1p+500 ? down * down : 0;
        small += size < 0x1p-500 ? up * up : 0;
        middle += size > 0x1p+500 || size < 0x1p-500 ? 0 : size * size;
    }
    __device__ void join(const squares &other)
    {
        large += other.large;
        middle += other.middle;
        small += other.small;
    }
    __device__ double root() const
    {
        if (large > 0 || large != large)
            return sqrt(large + middle * 0x1p-600 * 0x1p-600) * 0x1p+600;
        if (middle > 0 || middle != middle)
            return sqrt(middle + small * 0x1p-600 * 0x1p-600);
        return sqrt(small) * 0x1p-600;
    }
};
template <class R, class T> __device__ inline void take_parts(squares<R> &to, T x)
{
    to.take(x);
}
template <class R> __device__ inline void take_parts(squares<R> &to, complex<R> x)
{
    to.take(x.x);
    to.take(x.y);
}
template <class T> struct nrm2_sum {
    typedef real_of<T> result;
    squares<result> sum;
    __device__ void clear()
    {
        sum.clear();
    }
    __device__ void take(T x, T, i64)
    {
        take_parts(sum, x);
    }
    __device__ void join(const nrm2_sum &other)
    {
        sum.join(other.sum);
    }
    __device__ result finish() const
    {
        return sum.root();
    }
};
/* The first element of the largest, or smallest, size; counted from 1. */
template <class T, bool LARGEST> struct extreme {
    typedef i64 result;
    real_of<T> size;
    i64 at; /* -1: none yet */
    __device__ void clear()
    {
        size = 0;
        at = -1;
    }
    __device__ void offer(real_of<T> other, i64 i)
    {
        const bool better = LARGEST ? other > size : other < size;
        if (i >= 0 && (at < 0 || better || (other == size && i < at))) {
            size = other;
            at = i;
        }
    }
    __device__ void take(T x, T, i64 i)
    {
        offer(magnitude(x), i);
    }
    __device__ void join(const extreme &other)
    {
        offer(other.size, other.at);
    }
    __device__ result finish() const
    {
        return at + 1;
    }
};

/* Result and the place for it: `is_narrow` results are of 32 bits. */
template <class R> __device__ inline void leave(void *to, bool is_narrow, R result)
{
    if (is_narrow)
        *(int *)to = (int)result;
    else
        *(R *)to = result;
}
template <class R> __device__ inline void leave(void *to, bool, complex<R> result)
{
    *(complex<R> *)to = result;
}

template <class Sum, class T>
__global__ void reduce(i64 n, vector<const T> x, vector<const T> y, Sum *parts, void *to, bool is_narrow)
{
    __shared__ Sum sums[THREADS];
    Sum sum;
    sum.clear();
    BLAS_EACH(i, n) sum.take(x[i], y[i], i);
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sums[threadIdx.x].join(sums[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x != 0)
        return;
    if (gridDim.x == 1)
        leave(to, is_narrow, sums[0].finish());
    else
        parts[blockIdx.x] = sums[0];
}
template <class Sum> __global__ void join(int n, const Sum *parts, void *to, bool is_narrow)
{
    Sum sum = parts[0];
    for (int i = 1; i < n; i++)
        sum.join(parts[i]);
    leave(to, is_narrow, sum.finish());
}

template <class Sum, class T>
static void launch_sum(cublasHandle_t handle, i64 n, vector<const T> x, vector<const T> y, char *slot, void *to,
                       bool is_narrow)
{
    Sum *parts = (Sum *)(slot + RESULT_BYTES);
    static_assert(RESULT_BYTES + PARTS * sizeof(Sum) <= SLOT_BYTES, "parts fit into a slot");
    const i64 wanted = (n + 16 * THREADS - 1) / (16 * THREADS);
    const int blocks = (int)(wanted < PARTS ? wanted : PARTS);
    reduce<Sum, T><<<blocks, THREADS, 0, handle->stream>>>(n, x, y, parts, to, is_narrow);
    if (blocks > 1)
        join<Sum><<<1, 1, 0, handle->stream>>>(blocks, parts, to, is_narrow);
}

/* The sum over x, or x and y, goes to `result`, on the host or the device as the pointer mode says. */
template <class Sum, class T, class R>
static cublasStatus_t sum(cublasHandle_t handle, i64 n, vector<const T> x, vector<const T> y, R *result)
{
    constexpr bool is_narrow = sizeof(R) == 4 && sizeof(typename Sum::result) == 8;
    const bool to_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
    if (n <= 0) {
        const R none{};
        if (to_device)
            return status_of(cudaMemsetAsync(result, 0, sizeof(R), handle->stream));
        *result = none;
        return CUBLAS_STATUS_SUCCESS;
    }
    char *slot = next_slot(handle);
    launch_sum<Sum, T>(handle, n, x, y, slot, to_device ? (void *)result : slot, is_narrow);
    return to_device ? launched() : fetch(handle, result, slot);
}

template <class Sum, class T, class R>
static cublasStatus_t sum_of_one(cublasHandle_t handle, i64 n, const T *x, i64 incx, R *result)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(result);
    const vector<const T> v{x, incx};
    return sum<Sum, T>(handle, incx <= 0 ? 0 : n, v, v, result);
}
template <class Sum, class T>
static cublasStatus_t sum_of_two(cublasHandle_t handle, i64 n, const T *x, i64 incx, const T *y, i64 incy, T *result)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(result);
    return sum<Sum, T>(handle, n, vector_of(x, n, incx), vector_of(y, n, incy), result);
}

/* ---- what the functions of the API call ---- */

#define BLAS_GRID(n) blocks_for(n), THREADS, 0, handle->stream

template <class T>
static cublasStatus_t do_axpy(cublasHandle_t handle, i64 n, const T *alpha, const T *x, i64 incx, T *y, i64 incy)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(alpha);
    const scalar<T> factor = scalar_of(handle, alpha);
    if (n <= 0 || is(factor, zero<T>()))
        return CUBLAS_STATUS_SUCCESS;
    axpy<T><<<BLAS_GRID(n)>>>(n, factor, vector_of(x, n, incx), vector_of(y, n, incy));
    return launched();
}
template <class T, class F> static cublasStatus_t do_scal(cublasHandle_t handle, i64 n, const F *alpha, T *x, i64 incx)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(alpha);
    if (n <= 0 || incx <= 0)
        return CUBLAS_STATUS_SUCCESS;
    scal<T, F><<<BLAS_GRID(n)>>>(n, scalar_of(handle, alpha), vector_of(x, n, incx));
    return launched();
}
template <class T> static cublasStatus_t do_copy(cublasHandle_t handle, i64 n, const T *x, i64 incx, T *y, i64 incy)
{
    BLAS_CHECK_HANDLE(handle);
    if (n <= 0)
        return CUBLAS_STATUS_SUCCESS;
    copy<T><<<BLAS_GRID(n)>>>(n, vector_of(x, n, incx), vector_of(y, n, incy));
    return launched();
}
template <class T> static cublasStatus_t do_swap(cublasHandle_t handle, i64 n, T *x, i64 incx, T *y, i64 incy)
{
    BLAS_CHECK_HANDLE(handle);
    if (n <= 0)
        return CUBLAS_STATUS_SUCCESS;
    swap<T><<<BLAS_GRID(n)>>>(n, vector_of(x, n, incx), vector_of(y, n, incy));
    return launched();
}
template <class T, class S>
static cublasStatus_t do_rot(cublasHandle_t handle, i64 n, T *x, i64 incx, T *y, i64 incy, const real_of<T> *c,
                             const S *s)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(c && s);
    if (n <= 0)
        return CUBLAS_STATUS_SUCCESS;
    rot<T, S>
        <<<BLAS_GRID(n)>>>(n, vector_of(x, n, incx), vector_of(y, n, incy), scalar_of(handle, c), scalar_of(handle, s));
    return launched();
}

} // namespace blas

/* The API's functions for one type of numbers and both widths of integers. S: the letter of the type; T: the type;
 * N, R: letters before nrm2 and asum, and their results' type; dots: DOT() for each product. */
#define BLAS_VECTORS(S, s, N, T, R, suffix, I)                                                                         \
    cublasStatus_t cublas##S##axpy##suffix(cublasHandle_t h, I n, const T *alpha, const T *x, I incx, T *y, I incy)    \
    {                                                                                                                  \
        return blas::do_axpy(h, n, blas::in(alpha), blas::in(x), incx, blas::in(y), incy);                             \
    }                                                                                                                  \
    cublasStatus_t cublas##S##scal##suffix(cublasHandle_t h, I n, const T *alpha, T *x, I incx)                        \
    {                                                                                                                  \
        return blas::do_scal(h, n, blas::in(alpha), blas::in(x), incx);                                                \
    }                                                                                                                  \
    cublasStatus_t cublas##S##copy##suffix(cublasHandle_t h, I n, const T *x, I incx, T *y, I incy)                    \
    {                                                                                                                  \
        return blas::do_copy(h, n, blas::in(x), incx, blas::in(y), incy);                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##S##swap##suffix(cublasHandle_t h, I n, T *x, I incx, T *y, I incy)                          \
    {                                                                                                                  \
        return blas::do_swap(h, n, blas::in(x), incx, blas::in(y), incy);                                              \
    }                                                                                                                  \
    cublasStatus_t cublas##N##nrm2##suffix(cublasHandle_t h, I n, const T *x, I incx, R *result)                       \
    {                                                                                                                  \
        return blas::sum_of_one<blas::nrm2_sum<blas::inside<T>::type>>(h, n, blas::in(x), incx, result);               \
    }                                                                                                                  \
    cublasStatus_t cublas##N##asum##suffix(cublasHandle_t h, I n, const T *x, I incx, R *result)                       \
    {                                                                                                                  \
        return blas::sum_of_one<blas::asum_sum<blas::inside<T>::type>>(h, n, blas::in(x), incx, result);               \
    }                                                                                                                  \
    cublasStatus_t cublasI##s##amax##suffix(cublasHandle_t h, I n, const T *x, I incx, I *result)                      \
    {                                                                                                                  \
        return blas::sum_of_one<blas::extreme<blas::inside<T>::type, true>>(h, n, blas::in(x), incx, result);          \
    }                                                                                                                  \
    cublasStatus_t cublasI##s##amin##suffix(cublasHandle_t h, I n, const T *x, I incx, I *result)                      \
    {                                                                                                                  \
        return blas::sum_of_one<blas::extreme<blas::inside<T>::type, false>>(h, n, blas::in(x), incx, result);         \
    }
#define BLAS_DOT(name, conjugates, T, suffix, I)                                                                       \
    cublasStatus_t cublas##name##suffix(cublasHandle_t h, I n, const T *x, I incx, const T *y, I incy, T *result)      \
    {                                                                                                                  \
        return blas::sum_of_two<blas::dot_sum<blas::inside<T>::type, conjugates>>(                                     \
            h, n, blas::in(x), incx, blas::in(y), incy, blas::in(result));                                             \
    }
#define BLAS_SCAL(name, T, F, suffix, I)                                                                               \
    cublasStatus_t cublas##name##suffix(cublasHandle_t h, I n, const F *alpha, T *x, I incx)                           \
    {                                                                                                                  \
        return blas::do_scal(h, n, alpha, blas::in(x), incx);                                                          \
    }
#define BLAS_ROT(name, T, R, F, suffix, I)                                                                             \
    cublasStatus_t cublas##name##suffix(cublasHandle_t h, I n, T *x, I incx, T *y, I incy, const R *c, const F *s)     \
    {                                                                                                                  \
        return blas::do_rot(h, n, blas::in(x), incx, blas::in(y), incy, c, blas::in(s));                               \
    }
#define BLAS_BOTH_WIDTHS(form, ...) form(__VA_ARGS__, _v2, int) form(__VA_ARGS__, _v2_64, int64_t)
