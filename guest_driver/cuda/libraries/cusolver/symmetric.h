/* Decompositions A = L D L^T of symmetric matrices (not Hermitian ones) with the pivoting of Bunch and Kaufman, by one
 * block of threads. Upper triangles are those of the matrix whose rows and columns are in reverse order. */
#pragma once
#include "lu.h"
#include "sums.h"

namespace solver
{
/* Rows and columns `first` and `second` change places in the lower triangle from `first` on. */
template <class T> __device__ void exchange_symmetric(view<T> a, i64 n, i64 first, i64 second)
{
    for (i64 i = second + 1 + threadIdx.x; i < n; i += THREADS) {
        const T kept = a(i, first);
        a(i, first) = a(i, second);
        a(i, second) = kept;
    }
    for (i64 i = first + 1 + threadIdx.x; i < second; i += THREADS) {
        const T kept = a(i, first);
        a(i, first) = a(second, i);
        a(second, i) = kept;
    }
    if (threadIdx.x == 0) {
        const T kept = a(first, first);
        a(first, first) = a(second, second);
        a(second, second) = kept;
    }
}
template <class T> __device__ void eliminate_one(view<T> a, i64 n, i64 k)
{
    const T inverse = one<T>() / a(k, k);
    for (i64 i = k + 1 + threadIdx.x; i < n; i += THREADS) {
        const T factor = a(i, k) * inverse;
        for (i64 j = k + 1; j <= i; j++)
            a(i, j) = a(i, j) - factor * a(j, k);
    }
    __syncthreads();
    for (i64 i = k + 1 + threadIdx.x; i < n; i += THREADS)
        a(i, k) = a(i, k) * inverse;
}
/* Elimination by a block of two columns. */
template <class T> __device__ void eliminate_two(view<T> a, i64 n, i64 k)
{
    const T side = a(k + 1, k), d11 = a(k + 1, k + 1) / side, d22 = a(k, k) / side;
    const T scale = one<T>() / (d11 * d22 - one<T>()) / side;
    for (i64 i = k + 2 + threadIdx.x; i < n; i += THREADS) {
        const T first = scale * (d11 * a(i, k) - a(i, k + 1)), second = scale * (d22 * a(i, k + 1) - a(i, k));
        for (i64 j = k + 2; j <= i; j++)
            a(i, j) = a(i, j) - first * a(j, k) - second * a(j, k + 1);
    }
    __syncthreads();
    for (i64 i = k + 2 + threadIdx.x; i < n; i += THREADS) {
        const T first = scale * (d11 * a(i, k) - a(i, k + 1)), second = scale * (d22 * a(i, k + 1) - a(i, k));
        a(i, k) = first;
        a(i, k + 1) = second;
    }
}
/* Pivots as LAPACK has them: negative for blocks of two. Null: the diagonal, as it comes. */
template <class T>
__global__ void __launch_bounds__(THREADS) decompose_symmetric(i64 n, bool upper, view<T> a, int *pivots, int *info)
{
    typedef real_of<T> R;
    __shared__ greatest<R> search;
    __shared__ R sizes[THREADS];
    const R limit = R(0.6403882032022076); /* (1 + sqrt(17)) / 8 */
    int failed = 0;
    for (i64 k = 0, step; k < n; k += step) {
        step = 1;
        __syncthreads();
        R size = -1;
        i64 chosen = k, row = n;
        for (i64 i = k + 1 + threadIdx.x; i < n; i += THREADS)
            if (magnitude(a(i, k)) > size || row == n) {
                size = magnitude(a(i, k));
                row = i;
            }
        row = search.among_threads(size, row);
        const R below = k + 1 < n ? search.sizes[0] : 0, own = magnitude(a(k, k));
        __syncthreads();
        const bool vanishes = !(own > 0 || (pivots && below > 0));
        if (vanishes && failed == 0)
            failed = (int)k + 1;
        if (pivots && !vanishes && own < limit * below) {
            R beside = 0;
            for (i64 j = k + threadIdx.x; j < n; j += THREADS)
                if (j != row) {
                    const R other = magnitude(j < row ? a(row, j) : a(j, row));
                    beside = other > beside ? other : beside;
                }
            beside = greatest_of_threads(beside, sizes);
            if (own < limit * below * (below / beside)) {
                chosen = row;
                step = magnitude(a(row, row)) >= limit * beside ? 1 : 2;
            }
        }
        __syncthreads();
        const i64 exchanged = k + step - 1;
        if (chosen != exchanged) {
            exchange_symmetric(a, n, exchanged, chosen);
            if (step == 2 && threadIdx.x == 0) {
                const T kept = a(k + 1, k);
                a(k + 1, k) = a(chosen, k);
                a(chosen, k) = kept;
            }
        }
        __syncthreads();
        if (step == 2)
            eliminate_two(a, n, k);
        else if (!vanishes)
            eliminate_one(a, n, k);
        if (pivots && threadIdx.x == 0)
            for (i64 i = k; i < k + step; i++) {
                const int place = (int)(upper ? n - chosen : chosen + 1);
                pivots[upper ? n - 1 - i : i] = step == 2 ? -place : place;
            }
    }
    if (threadIdx.x == 0)
        *info = failed && upper ? (int)n + 1 - failed : failed;
}
template <class T>
static status symmetric(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda, int *pivots, int *info)
{
    const bool upper = fill == CUBLAS_FILL_MODE_UPPER;
    const view<T> matrix = upper ? view<T>{a + (n - 1) * (lda + 1), -1, -lda} : view<T>{a, 1, lda};
    if (n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    decompose_symmetric<T><<<1, THREADS, 0, h->stream>>>(n, upper, matrix, pivots, info);
    return launched();
}
} // namespace solver

#define SOLVER_SYMMETRIC(S, T)                                                                                         \
    using namespace solver;                                                                                            \
    status cusolverDn##S##sytrf_bufferSize(handle h, int n, T *, int lda, int *size)                                   \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(n >= 0 && is_leading(lda, n) && size);                                                            \
        *size = (int)most(n, 1);                                                                                       \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sytrf(handle h, cublasFillMode_t fill, int n, T *a, int lda, int *pivots, T *, int size,     \
                                int *info)                                                                             \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && (a || n == 0) && size >= 0 && info);             \
        return symmetric(h, fill, n, in(a), lda, pivots, info);                                                        \
    }
