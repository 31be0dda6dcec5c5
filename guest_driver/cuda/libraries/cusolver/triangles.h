/* Triangular systems by blocks, and copies of matrices and triangles. */
#pragma once
#include <limits.h>

#include "families.h"

namespace solver
{
/* Side of the blocks that lie in shared memory. */
template <class T> constexpr int TILE = sizeof(T) == 16 ? 32 : 64;

/* Solves a block of the diagonal, from its first row or its last, for each column of B; `a` is op(A). */
template <class T>
__global__ void __launch_bounds__(THREADS)
    solve_tile(int n, i64 count, bool forward, bool unit, bool conjugates, view<const T> a, T *b, i64 ldb)
{
    __shared__ T tile[TILE<T> * TILE<T>], x[TILE<T>];
    for (int e = threadIdx.x; e < n * n; e += THREADS) {
        const int i = a.row == 1 ? e % n : e / n, j = a.row == 1 ? e / n : e % n;
        tile[i + j * n] = conjugate_if(conjugates, a(i, j));
    }
    for (i64 c = blockIdx.x; c < count; c += gridDim.x) {
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS)
            x[i] = b[i + c * ldb];
        for (int step = 0; step < n; step++) {
            const int j = forward ? step : n - 1 - step;
            __syncthreads();
            const T known = unit ? x[j] : x[j] / tile[j + j * n];
            __syncthreads();
            const int begin = forward ? j : 0, end = forward ? n : j + 1;
            for (int i = begin + threadIdx.x; i < end; i += THREADS)
                x[i] = i == j ? known : x[i] - tile[i + j * n] * known;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS)
            b[i + c * ldb] = x[i];
    }
}

/* x -= op(A) y for the few columns that a product of matrices is not worth it for: a row for each thread. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    subtract_tile(i64 rows, int n, i64 count, bool conjugates, view<const T> a, const T *y, T *x, i64 ld)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows)
        return;
    for (i64 c = blockIdx.y; c < count; c += gridDim.y) {
        T sum = x[i + c * ld];
        for (int k = 0; k < n; k++)
            sum = sum - conjugate_if(conjugates, a(i, k)) * y[k + c * ld];
        x[i + c * ld] = sum;
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) write_identity(i64 m, i64 n, T *a, i64 lda)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < m)
        for (i64 j = blockIdx.y; j < n; j += gridDim.y)
            a[i + j * lda] = i == j ? one<T>() : zero<T>();
}
__device__ inline bool keeps(part kept, i64 i, i64 j)
{
    return kept == WHOLE || (kept == LOWER_PART && i >= j) || (kept == UPPER_PART && i <= j) ||
           (kept == BELOW_PART && i > j) || (kept == ABOVE_PART && i < j);
}
template <class T>
__global__ void __launch_bounds__(THREADS)
    write_copy(i64 m, i64 n, part kept, bool conjugates, view<const T> from, T *to, i64 ldto)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < m)
        for (i64 j = blockIdx.y; j < n; j += gridDim.y)
            if (keeps(kept, i, j))
                to[i + j * ldto] = conjugate_if(conjugates, from(i, j));
}
/* Element (i, j) above the diagonal of the lower triangle's view. */
template <class T> __global__ void __launch_bounds__(THREADS) write_other_half(i64 n, view<T> a)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    for (i64 j = blockIdx.y; j < n; j += gridDim.y)
        if (i < j)
            a(i, j) = conjugate(a(j, i));
        else if (i == j)
            a(i, j) = real_part(a(i, j));
}

template <class T> status solve_triangle(handle h, triangle form, i64 n, i64 count, const T *a, i64 lda, T *b, i64 ldb)
{
    const bool turned = form.op != CUBLAS_OP_N, conjugates = form.op == CUBLAS_OP_C;
    const bool forward = (form.fill == CUBLAS_FILL_MODE_LOWER) != turned;
    const view<const T> op{a, turned ? lda : 1, turned ? 1 : lda};
    const i64 tiles = ceiling(n, TILE<T>);
    for (i64 step = 0; step < tiles && count > 0; step++) {
        const i64 begin = (forward ? step : tiles - 1 - step) * TILE<T>, end = least(begin + TILE<T>, n);
        solve_tile<T><<<(unsigned)least(count, 1024), THREADS, 0, h->stream>>>(
            (int)(end - begin), count, forward, form.is_unit, conjugates, op.at(begin, begin), b + begin, ldb);
        const i64 first = forward ? end : 0, rows = forward ? n - end : begin;
        if (rows == 0)
            continue;
        const view<const T> rest = op.at(first, begin);
        if (count < 8)
            subtract_tile<T><<<plane(rows, count), THREADS, 0, h->stream>>>(rows, (int)(end - begin), count, conjugates,
                                                                            rest, b + begin, b + first, ldb);
        else
            SOLVER_TRY(gemm(h, form.op, CUBLAS_OP_N, rows, count, end - begin, -one<T>(), rest.first, lda, b + begin,
                            ldb, one<T>(), b + first, ldb));
    }
    return launched();
}
/* The first zero of the diagonal, found by one block. */
template <class T> __global__ void __launch_bounds__(THREADS) search_diagonal(i64 n, const T *a, i64 lda, int *info)
{
    __shared__ int first;
    if (threadIdx.x == 0)
        first = INT_MAX;
    __syncthreads();
    for (i64 i = threadIdx.x; i < n; i += THREADS)
        if (a[i * (lda + 1)] == zero<T>())
            atomicMin(&first, (int)i + 1);
    __syncthreads();
    if (threadIdx.x == 0)
        *info = first == INT_MAX ? 0 : first;
}
template <class T> status find_zero(handle h, i64 n, const T *a, i64 lda, int *info)
{
    search_diagonal<T><<<1, THREADS, 0, h->stream>>>(n, a, lda, info);
    return launched();
}
template <class T> status set_identity(handle h, i64 m, i64 n, T *a, i64 lda)
{
    if (m > 0 && n > 0)
        write_identity<T><<<plane(m, n), THREADS, 0, h->stream>>>(m, n, a, lda);
    return launched();
}
template <class T>
status copy_matrix(handle h, cublasOperation_t op, part kept, i64 m, i64 n, const T *a, i64 lda, T *b, i64 ldb)
{
    const view<const T> from{a, op == CUBLAS_OP_N ? 1 : lda, op == CUBLAS_OP_N ? lda : 1};
    if (m > 0 && n > 0)
        write_copy<T><<<plane(m, n), THREADS, 0, h->stream>>>(m, n, kept, op == CUBLAS_OP_C, from, b, ldb);
    return launched();
}
template <class T> status fill_hermitian(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda)
{
    if (n > 0)
        write_other_half<T><<<plane(n, n), THREADS, 0, h->stream>>>(n, lower_of(fill, a, lda));
    return launched();
}

#define SOLVER_TRIANGLES(T)                                                                                            \
    template status solve_triangle<T>(handle, triangle, i64, i64, const T *, i64, T *, i64);                           \
    template status find_zero<T>(handle, i64, const T *, i64, int *);                                                  \
    template status set_identity<T>(handle, i64, i64, T *, i64);                                                       \
    template status copy_matrix<T>(handle, cublasOperation_t, part, i64, i64, const T *, i64, T *, i64);               \
    template status fill_hermitian<T>(handle, cublasFillMode_t, i64, T *, i64);
} // namespace solver
