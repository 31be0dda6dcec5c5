/* Matrices with vectors, and element by element: kernels, and the functions that launch them. */
#pragma once
#include "gemm.h"

namespace blas
{

constexpr int LINE = 64; /* threads of a block */

static inline unsigned line_blocks(i64 n)
{
    return (unsigned)least(ceiling(n, LINE), 65535);
}

#define BLAS_EACH_LINE(i, n) for (i64 i = (i64)blockIdx.x * LINE + threadIdx.x; i < (n); i += (i64)gridDim.x * LINE)

template <class T> __device__ inline void blend(T &to, T sum, T alpha, T beta)
{
    to = beta == zero<T>() ? alpha * sum : alpha * sum + beta * to;
}

/* The vectors of a batch, each of n elements, `step` apart. */
template <class T> struct vectors {
    batch<T> all;
    i64 n, step;
    __device__ vector<T> operator[](i64 z) const
    {
        return vector_of(all[z], n, step);
    }
};

/* y = alpha A x + beta y, a thread per row. */
template <class T>
__global__ void gemv_by_rows(i64 m, i64 n, i64 count, scalar<T> alpha, batch<const T> matrix, i64 lda, bool conjugates,
                             vectors<const T> xs, scalar<T> beta, vectors<T> ys)
{
    const T times = alpha.get(), keep = beta.get();
    const i64 columns = times == zero<T>() ? 0 : n; /* what has the factor 0 is not read */
    for (i64 z = blockIdx.y; z < count; z += gridDim.y) {
        const T *a = matrix[z];
        const vector<const T> x = xs[z];
        const vector<T> y = ys[z];
        BLAS_EACH_LINE(i, m)
        {
            T sum = zero<T>();
            for (i64 j = 0; j < columns; j++)
                add_product(sum, conjugate_if(conjugates, a[i + j * lda]), x[j]);
            blend(y[i], sum, times, keep);
        }
    }
}
/* Likewise for the transposed matrix, a block per column. */
template <class T>
__global__ void gemv_by_columns(i64 m, i64 n, i64 count, scalar<T> alpha, batch<const T> matrix, i64 lda,
                                bool conjugates, vectors<const T> xs, scalar<T> beta, vectors<T> ys)
{
    __shared__ T sums[LINE];
    const T times = alpha.get(), keep = beta.get();
    const i64 rows = times == zero<T>() ? 0 : m;
    for (i64 z = blockIdx.y; z < count; z += gridDim.y)
        for (i64 j = blockIdx.x; j < n; j += gridDim.x) {
            const T *a = matrix[z] + j * lda;
            const vector<const T> x = xs[z];
            T sum = zero<T>();
            for (i64 i = threadIdx.x; i < rows; i += LINE)
                add_product(sum, conjugate_if(conjugates, a[i]), x[i]);
            sums[threadIdx.x] = sum;
            __syncthreads();
            for (int half = LINE / 2; half > 0; half /= 2) {
                if ((int)threadIdx.x < half)
                    sums[threadIdx.x] += sums[threadIdx.x + half];
                __syncthreads();
            }
            if (threadIdx.x == 0)
                blend(ys[z][j], sums[0], times, keep);
            __syncthreads();
        }
}

template <class T>
__global__ void ger(i64 m, i64 n, scalar<T> alpha, vector<const T> x, vector<const T> y, bool conjugates, T *a, i64 lda)
{
    const T times = alpha.get();
    if (times == zero<T>())
        return;
    for (i64 j = blockIdx.y; j < n; j += gridDim.y) {
        const T right = times * conjugate_if(conjugates, y[j]);
        BLAS_EACH_LINE(i, m) a[i + j * lda] += x[i] * right;
    }
}

/* C = alpha op(A) + beta op(B); what has the factor 0 is not read. */
template <class T>
__global__ void geam(i64 m, i64 n, scalar<T> alpha, operand<T> a, scalar<T> beta, operand<T> b, T *c, i64 ldc)
{
    const T left = alpha.get(), right = beta.get();
    const T *from_a = a.matrix[0], *from_b = b.matrix[0];
    const bool has_a = !(left == zero<T>()), has_b = !(right == zero<T>());
    for (i64 j = blockIdx.y; j < n; j += gridDim.y)
        BLAS_EACH_LINE(i, m)
        {
            T sum = zero<T>();
            if (has_a)
                sum += left * conjugate_if(a.conjugates, from_a[i * a.row + j * a.column]);
            if (has_b)
                sum += right * conjugate_if(b.conjugates, from_b[i * b.row + j * b.column]);
            c[i + j * ldc] = sum;
        }
}

/* C = diag(x) A, or A diag(x). */
template <class T>
__global__ void dgmm(i64 m, i64 n, bool is_left, const T *a, i64 lda, vector<const T> x, T *c, i64 ldc)
{
    for (i64 j = blockIdx.y; j < n; j += gridDim.y)
        BLAS_EACH_LINE(i, m) c[i + j * ldc] = x[is_left ? i : j] * a[i + j * lda];
}

/* ---- the functions of the API call these ---- */

static inline dim3 plane(i64 m, i64 n)
{
    return dim3(line_blocks(m), (unsigned)least(n, 65535));
}

template <class T>
static cublasStatus_t do_gemv(cublasHandle_t handle, cublasOperation_t op, i64 m, i64 n, const T *alpha,
                              batch<const T> a, i64 lda, batch<const T> x, i64 incx, const T *beta, batch<T> y,
                              i64 incy, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_operation(op) && m >= 0 && n >= 0 && lda >= at_least_one(m) && incx && incy && alpha && beta &&
               count >= 0);
    const scalar<T> times = scalar_of(handle, alpha), keep = scalar_of(handle, beta);
    if (m == 0 || n == 0 || count == 0 || (is(times, zero<T>()) && is(keep, one<T>())))
        return CUBLAS_STATUS_SUCCESS;
    const bool conjugates = op == CUBLAS_OP_C || op == CUBLAS_OP_CONJG, turned = is_turned(op);
    const vectors<const T> from{x, turned ? m : n, incx};
    const vectors<T> to{y, turned ? n : m, incy};
    const dim3 grid(turned ? (unsigned)least(n, 65535) : line_blocks(m), (unsigned)least(count, 65535));
    if (turned)
        gemv_by_columns<T><<<grid, LINE, 0, handle->stream>>>(m, n, count, times, a, lda, conjugates, from, keep, to);
    else
        gemv_by_rows<T><<<grid, LINE, 0, handle->stream>>>(m, n, count, times, a, lda, conjugates, from, keep, to);
    return launched();
}

template <class T>
static cublasStatus_t do_ger(cublasHandle_t handle, i64 m, i64 n, const T *alpha, const T *x, i64 incx, const T *y,
                             i64 incy, T *a, i64 lda, bool conjugates)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(m >= 0 && n >= 0 && incx && incy && lda >= at_least_one(m) && alpha);
    const scalar<T> times = scalar_of(handle, alpha);
    if (m == 0 || n == 0 || is(times, zero<T>()))
        return CUBLAS_STATUS_SUCCESS;
    ger<T><<<plane(m, n), LINE, 0, handle->stream>>>(m, n, times, vector_of(x, m, incx), vector_of(y, n, incy),
                                                     conjugates, a, lda);
    return launched();
}

template <class T>
static cublasStatus_t do_geam(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n,
                              const T *alpha, const T *a, i64 lda, const T *beta, const T *b, i64 ldb, T *c, i64 ldc)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_operation(opa) && is_operation(opb) && m >= 0 && n >= 0 && alpha && beta);
    BLAS_CHECK(lda >= at_least_one(is_turned(opa) ? n : m) && ldb >= at_least_one(is_turned(opb) ? n : m) &&
               ldc >= at_least_one(m));
    BLAS_CHECK((c != a || (lda == ldc && !is_turned(opa))) && (c != b || (ldb == ldc && !is_turned(opb))));
    if (m == 0 || n == 0)
        return CUBLAS_STATUS_SUCCESS;
    geam<T><<<plane(m, n), LINE, 0, handle->stream>>>(m, n, scalar_of(handle, alpha),
                                                      operand_of<T>(opa, {a, nullptr, 0}, lda), scalar_of(handle, beta),
                                                      operand_of<T>(opb, {b, nullptr, 0}, ldb), c, ldc);
    return launched();
}

template <class T>
static cublasStatus_t do_dgmm(cublasHandle_t handle, cublasSideMode_t side, i64 m, i64 n, const T *a, i64 lda,
                              const T *x, i64 incx, T *c, i64 ldc)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK((side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT) && m >= 0 && n >= 0 && lda >= at_least_one(m) &&
               ldc >= at_least_one(m));
    if (m == 0 || n == 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool is_left = side == CUBLAS_SIDE_LEFT;
    dgmm<T>
        <<<plane(m, n), LINE, 0, handle->stream>>>(m, n, is_left, a, lda, vector_of(x, is_left ? m : n, incx), c, ldc);
    return launched();
}

struct triangle {
    cublasFillMode_t fill;
    cublasOperation_t op;
    cublasDiagType_t diagonal;
    bool is_right() const
    {
        return (fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER) && is_operation(op) &&
               (diagonal == CUBLAS_DIAG_UNIT || diagonal == CUBLAS_DIAG_NON_UNIT);
    }
};

} // namespace blas

#define BLAS_BOTH_SIZES(form, ...) form(__VA_ARGS__, , int) form(__VA_ARGS__, _64, int64_t)

/* The API's functions for one type of numbers and both widths of integers. */
#define BLAS_MATRICES(S, T, w, I)                                                                                      \
    cublasStatus_t cublas##S##gemv_v2##w(cublasHandle_t h, cublasOperation_t op, I m, I n, const T *alpha, const T *a, \
                                         I lda, const T *x, I incx, const T *beta, T *y, I incy)                       \
    {                                                                                                                  \
        return blas::do_gemv(h, op, m, n, blas::in(alpha), blas::one_of(a), lda, blas::one_of(x), incx,                \
                             blas::in(beta), blas::one_of(y), incy, 1);                                                \
    }                                                                                                                  \
    cublasStatus_t cublas##S##geam##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n,        \
                                      const T *alpha, const T *a, I lda, const T *beta, const T *b, I ldb, T *c,       \
                                      I ldc)                                                                           \
    {                                                                                                                  \
        return blas::do_geam(h, opa, opb, m, n, blas::in(alpha), blas::in(a), lda, blas::in(beta), blas::in(b), ldb,   \
                             blas::in(c), ldc);                                                                        \
    }                                                                                                                  \
    cublasStatus_t cublas##S##dgmm##w(cublasHandle_t h, cublasSideMode_t side, I m, I n, const T *a, I lda,            \
                                      const T *x, I incx, T *c, I ldc)                                                 \
    {                                                                                                                  \
        return blas::do_dgmm(h, side, m, n, blas::in(a), lda, blas::in(x), incx, blas::in(c), ldc);                    \
    }                                                                                                                  \
    cublasStatus_t cublas##S##gemvBatched##w(cublasHandle_t h, cublasOperation_t op, I m, I n, const T *alpha,         \
                                             const T *const a[], I lda, const T *const x[], I incx, const T *beta,     \
                                             T *const y[], I incy, I count)                                            \
    {                                                                                                                  \
        return blas::do_gemv(h, op, m, n, blas::in(alpha), blas::table_of(a), lda, blas::table_of(x), incx,            \
                             blas::in(beta), blas::table_of(y), incy, count);                                          \
    }                                                                                                                  \
    cublasStatus_t cublas##S##gemvStridedBatched##w(                                                                   \
        cublasHandle_t h, cublasOperation_t op, I m, I n, const T *alpha, const T *a, I lda, long long jump_a,         \
        const T *x, I incx, long long jump_x, const T *beta, T *y, I incy, long long jump_y, I count)                  \
    {                                                                                                                  \
        return blas::do_gemv(h, op, m, n, blas::in(alpha), {blas::in(a), nullptr, jump_a}, lda,                        \
                             {blas::in(x), nullptr, jump_x}, incx, blas::in(beta), {blas::in(y), nullptr, jump_y},     \
                             incy, count);                                                                             \
    }
#define BLAS_GER(name, conjugates, T, w, I)                                                                            \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, I m, I n, const T *alpha, const T *x, I incx, const T *y,    \
                                        I incy, T *a, I lda)                                                           \
    {                                                                                                                  \
        return blas::do_ger(h, m, n, blas::in(alpha), blas::in(x), incx, blas::in(y), incy, blas::in(a), lda,          \
                            conjugates);                                                                               \
    }
