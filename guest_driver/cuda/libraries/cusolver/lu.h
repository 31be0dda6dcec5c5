/* LU decompositions with partial pivoting: panels of columns, each by one block of threads, then the rest by products.
 */
#pragma once
#include "families.h"

namespace solver
{
constexpr int PANEL = 32, WHOLE_PANEL = 64;

/* The row of the greatest element, the first of equal ones, in all threads. */
template <class R> struct greatest {
    R sizes[THREADS];
    i64 rows[THREADS];
    __device__ i64 among_threads(R size, i64 row)
    {
        sizes[threadIdx.x] = size;
        rows[threadIdx.x] = row;
        __syncthreads();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if ((int)threadIdx.x < half) {
                const R other = sizes[threadIdx.x + half];
                const i64 other_row = rows[threadIdx.x + half];
                if (other > sizes[threadIdx.x] || (other == sizes[threadIdx.x] && other_row < rows[threadIdx.x])) {
                    sizes[threadIdx.x] = other;
                    rows[threadIdx.x] = other_row;
                }
            }
            __syncthreads();
        }
        return rows[0];
    }
};

/* Decomposes m x n elements, whose first row and column have number `first` in the matrix. */
template <class T, class Index>
__global__ void __launch_bounds__(THREADS)
    decompose_panel(i64 m, int n, i64 first, T *a, i64 lda, Index *pivots, int *info)
{
    __shared__ greatest<real_of<T>> search;
    __shared__ T row[WHOLE_PANEL];
    int failed = 0;
    const int steps = (int)least(m, n);
    for (int j = 0; j < steps; j++) {
        __syncthreads();
        i64 chosen = j;
        if (pivots) {
            real_of<T> size = -1;
            chosen = m;
            for (i64 i = j + threadIdx.x; i < m; i += THREADS) {
                const real_of<T> own = magnitude(a[i + j * lda]);
                if (own > size || chosen == m) {
                    size = own;
                    chosen = i;
                }
            }
            chosen = search.among_threads(size, chosen);
            if (threadIdx.x == 0)
                pivots[j] = (Index)(first + chosen + 1);
        }
        for (int c = threadIdx.x; c < n; c += THREADS) {
            row[c] = a[chosen + c * lda];
            a[chosen + c * lda] = a[j + c * lda];
            a[j + c * lda] = row[c];
        }
        __syncthreads();
        const T pivot = row[j];
        const bool vanishes = pivot == zero<T>();
        if (vanishes && failed == 0)
            failed = (int)first + j + 1;
        for (i64 i = j + 1 + threadIdx.x; i < m; i += THREADS) {
            const T factor = vanishes ? a[i + j * lda] : a[i + j * lda] / pivot;
            a[i + j * lda] = factor;
            for (int c = j + 1; c < n; c++)
                a[i + c * lda] = a[i + c * lda] - factor * row[c];
        }
    }
    if (threadIdx.x == 0 && (first == 0 || (failed && *info == 0)))
        *info = failed;
}
/* Exchanges rows as `count` pivots say, in their order or from the last; a column for each thread, those of the panel
 * excepted. */
template <class T, class Index>
__global__ void __launch_bounds__(THREADS) exchange_rows(i64 n, i64 panel, i64 panel_end, i64 first, i64 count,
                                                         bool forward, const Index *pivots, T *a, i64 lda)
{
    const i64 c = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (c >= n || (c >= panel && c < panel_end))
        return;
    for (i64 step = 0; step < count; step++) {
        const i64 i = first + (forward ? step : count - 1 - step), other = (i64)pivots[i] - 1;
        const T kept = a[i + c * lda];
        a[i + c * lda] = a[other + c * lda];
        a[other + c * lda] = kept;
    }
}
template <class T, class Index>
static void launch_exchange(handle h, i64 n, i64 panel, i64 panel_end, i64 first, i64 count, bool forward,
                            const Index *pivots, T *a, i64 lda)
{
    if (pivots && n > 0 && count > 0)
        exchange_rows<T, Index><<<(unsigned)ceiling(n, THREADS), THREADS, 0, h->stream>>>(
            n, panel, panel_end, first, count, forward, pivots, a, lda);
}

template <class T, class Index> status lu(handle h, i64 m, i64 n, T *a, i64 lda, Index *pivots, int *info)
{
    const i64 steps = least(m, n);
    if (steps == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    const i64 width = n <= WHOLE_PANEL ? n : PANEL;
    for (i64 begin = 0; begin < steps; begin += width) {
        const i64 end = least(begin + width, n <= WHOLE_PANEL ? n : steps), right = n - end;
        T *const panel = a + begin + begin * lda;
        decompose_panel<T, Index><<<1, THREADS, 0, h->stream>>>(m - begin, (int)(end - begin), begin, panel, lda,
                                                                pivots ? pivots + begin : nullptr, info);
        launch_exchange(h, n, begin, end, begin, least(end, steps) - begin, true, (const Index *)pivots, a, lda);
        if (right == 0)
            break;
        T *const top = a + begin + end * lda;
        SOLVER_TRY(
            solve_triangle(h, {CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, true}, end - begin, right, panel, lda, top, lda));
        SOLVER_TRY(gemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m - end, right, end - begin, -one<T>(), panel + (end - begin), lda,
                        top, lda, one<T>(), top + (end - begin), lda));
    }
    return launched();
}
template <class T, class Index>
status lu_solve(handle h, cublasOperation_t op, i64 n, i64 count, const T *a, i64 lda, const Index *pivots, T *b,
                i64 ldb)
{
    const bool turned = op != CUBLAS_OP_N;
    const triangle lower{CUBLAS_FILL_MODE_LOWER, op, true}, upper{CUBLAS_FILL_MODE_UPPER, op, false};
    if (!turned)
        launch_exchange(h, count, 0, 0, 0, n, true, pivots, b, ldb);
    SOLVER_TRY(solve_triangle(h, turned ? upper : lower, n, count, a, lda, b, ldb));
    SOLVER_TRY(solve_triangle(h, turned ? lower : upper, n, count, a, lda, b, ldb));
    if (turned)
        launch_exchange(h, count, 0, 0, 0, n, false, pivots, b, ldb);
    return launched();
}
} // namespace solver

/* The API's functions for one type of numbers. */
#define SOLVER_LU_OF(T, Index)                                                                                         \
    template status solver::lu<T, Index>(handle, i64, i64, T *, i64, Index *, int *);                                  \
    template status solver::lu_solve<T, Index>(handle, cublasOperation_t, i64, i64, const T *, i64, const Index *,     \
                                               T *, i64);
#define SOLVER_LU(S, T)                                                                                                \
    using namespace solver;                                                                                            \
    SOLVER_LU_OF(inside<T>::type, int)                                                                                 \
    SOLVER_LU_OF(inside<T>::type, int64_t)                                                                             \
    status cusolverDn##S##getrf_bufferSize(handle h, int m, int n, T *, int lda, int *size)                            \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= 0 && n >= 0 && is_leading(lda, m) && size);                                                  \
        *size = (int)most(n, 1);                                                                                       \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##getrf(handle h, int m, int n, T *a, int lda, T *, int *pivots, int *info)                    \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= 0 && n >= 0 && is_leading(lda, m) && (a || m == 0 || n == 0) && info);                       \
        return lu(h, m, n, in(a), lda, pivots, info);                                                                  \
    }                                                                                                                  \
    status cusolverDn##S##getrs(handle h, cublasOperation_t op, int n, int nrhs, const T *a, int lda,                  \
                                const int *pivots, T *b, int ldb, int *info)                                           \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_operation(op) && n >= 0 && nrhs >= 0 && is_leading(lda, n) && is_leading(ldb, n) && info);     \
        SOLVER_TRY(lu_solve(h, op, n, nrhs, in(a), lda, pivots, in(b), ldb));                                          \
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));                                            \
    }                                                                                                                  \
    status cusolverDn##S##laswp(handle h, int n, T *a, int lda, int k1, int k2, const int *pivots, int step)           \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(n >= 0 && lda >= 1 && k1 >= 1 && k2 >= k1 && pivots);                                             \
        if (step != 1 && step != -1)                                                                                   \
            return CUSOLVER_STATUS_NOT_SUPPORTED;                                                                      \
        launch_exchange(h, n, 0, 0, k1 - 1, k2 - k1 + 1, step == 1, pivots, in(a), lda);                               \
        return launched();                                                                                             \
    }
