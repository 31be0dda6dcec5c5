/* Cholesky decompositions A = L L^H, by block columns: each is updated by those to its left, and then decomposed.
 * Upper triangles are transposed ones, U^T U^T^H = A^T. */
#pragma once
#include "families.h"

namespace solver
{
template <class T> constexpr int BLOCK = sizeof(T) == 16 ? 32 : 64;

/* One matrix by one block of threads; each thread has rows. Returns the failing column, from 1, or 0. */
template <class T> __device__ int decompose(view<T> a, int n)
{
    __shared__ real_of<T> pivot;
    for (int j = 0; j < n; j++) {
        __syncthreads();
        for (int i = j + threadIdx.x; i < n; i += THREADS) {
            T sum = a(i, j);
            for (int k = 0; k < j; k++)
                sum = sum - a(i, k) * conjugate(a(j, k));
            a(i, j) = sum;
            if (i == j)
                pivot = re(sum);
        }
        __syncthreads();
        const real_of<T> square = pivot;
        if (!(square > 0))
            return j + 1;
        const real_of<T> length = root(square), inverse = 1 / length;
        for (int i = j + threadIdx.x; i < n; i += THREADS)
            a(i, j) = i == j ? from_real<T>(length) : inverse * a(i, j);
    }
    __syncthreads();
    return 0;
}

/* Block column `first` of `n` columns: a is its diagonal block, `left` the rows' part to its left. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    decompose_diagonal(int n, i64 first, view<T> a, view<const T> left, int *info)
{
    __shared__ T tile[BLOCK<T> * BLOCK<T>];
    if (first > 0 && *info != 0)
        return;
    for (int e = threadIdx.x; e < n * n; e += THREADS) {
        const int i = e % n, j = e / n;
        T sum = i >= j ? a(i, j) : zero<T>();
        if (i >= j)
            for (i64 k = 0; k < first; k++)
                sum = sum - left(i, k) * conjugate(left(j, k));
        tile[e] = sum;
    }
    __syncthreads();
    const int failed = decompose(view<T>{tile, 1, n}, n);
    for (int e = threadIdx.x; e < n * n; e += THREADS)
        if (e % n >= e / n)
            a(e % n, e / n) = tile[e];
    if (threadIdx.x == 0 && (first == 0 || failed))
        *info = failed ? (int)first + failed : 0;
}
/* The rows below: X L^H = A for the L above, a row for each thread. */
template <class T>
__global__ void __launch_bounds__(THREADS) solve_below(i64 rows, int n, view<const T> l, view<T> a, const int *info)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows || *info != 0)
        return;
    for (int j = 0; j < n; j++) {
        T sum = a(i, j);
        for (int k = 0; k < j; k++)
            sum = sum - a(i, k) * conjugate(l(j, k));
        a(i, j) = (1 / re(l(j, j))) * sum;
    }
}
template <class T>
__global__ void __launch_bounds__(THREADS) decompose_batch(bool lower, int n, batch<T> a, i64 lda, int *infos)
{
    __shared__ T tile[BLOCK<T> * BLOCK<T>];
    T *const first = a[blockIdx.x];
    const view<T> matrix = lower ? view<T>{first, 1, lda} : view<T>{first, lda, 1};
    int failed;
    if (n <= BLOCK<T>) {
        for (int e = threadIdx.x; e < n * n; e += THREADS)
            if (e % n >= e / n)
                tile[e] = matrix(e % n, e / n);
        __syncthreads();
        failed = decompose(view<T>{tile, 1, n}, n);
        __syncthreads();
        for (int e = threadIdx.x; e < n * n; e += THREADS)
            if (e % n >= e / n)
                matrix(e % n, e / n) = tile[e];
    } else
        failed = decompose(matrix, n);
    if (threadIdx.x == 0)
        infos[blockIdx.x] = failed;
}
/* A X = B for one column of B in each matrix. */
template <class T>
__global__ void __launch_bounds__(THREADS) solve_batch(bool lower, int n, batch<T> a, i64 lda, batch<T> b, i64)
{
    const view<T> l = lower ? view<T>{a[blockIdx.x], 1, lda} : view<T>{a[blockIdx.x], lda, 1};
    T *const x = b[blockIdx.x];
    /* an upper triangle, transposed, is conj(L) */
    for (int step = 0; step < 2 * n; step++) {
        const bool forward = step < n;
        const int j = forward ? step : 2 * n - 1 - step;
        const T known = (1 / re(l(j, j))) * x[j];
        __syncthreads();
        const int begin = forward ? j : 0, end = forward ? n : j + 1;
        for (int i = begin + threadIdx.x; i < end; i += THREADS) {
            const T factor = forward ? l(i, j) : l(j, i);
            x[i] = i == j ? known : x[i] - conjugate_if(forward != lower, factor) * known;
        }
        __syncthreads();
    }
}

template <class T> status cholesky(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda, int *info)
{
    if (n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    const view<T> l = lower_of(fill, a, lda);
    const bool is_lower = fill == CUBLAS_FILL_MODE_LOWER;
    for (i64 begin = 0; begin < n; begin += BLOCK<T>) {
        const i64 end = least(begin + BLOCK<T>, n), below = n - end;
        const view<const T> left{l.at(begin, 0).first, l.row, l.column};
        const view<const T> diagonal{l.at(begin, begin).first, l.row, l.column};
        decompose_diagonal<T><<<1, THREADS, 0, h->stream>>>((int)(end - begin), begin, l.at(begin, begin), left, info);
        if (below == 0)
            break;
        T *const rest = l.at(end, begin).first;
        if (begin > 0 && is_lower)
            SOLVER_TRY(gemm(h, CUBLAS_OP_N, CUBLAS_OP_C, below, end - begin, begin, -one<T>(), l.at(end, 0).first, lda,
                            left.first, lda, one<T>(), rest, lda));
        else if (begin > 0)
            SOLVER_TRY(gemm(h, CUBLAS_OP_C, CUBLAS_OP_N, end - begin, below, begin, -one<T>(), left.first, lda,
                            l.at(end, 0).first, lda, one<T>(), rest, lda));
        solve_below<T><<<(unsigned)ceiling(below, THREADS), THREADS, 0, h->stream>>>(below, (int)(end - begin),
                                                                                     diagonal, l.at(end, begin), info);
    }
    return launched();
}
template <class T>
static status cholesky_solve(handle h, cublasFillMode_t fill, i64 n, i64 count, const T *a, i64 lda, T *b, i64 ldb)
{
    const bool is_lower = fill == CUBLAS_FILL_MODE_LOWER;
    SOLVER_TRY(solve_triangle(h, {fill, is_lower ? CUBLAS_OP_N : CUBLAS_OP_C, false}, n, count, a, lda, b, ldb));
    return solve_triangle(h, {fill, is_lower ? CUBLAS_OP_C : CUBLAS_OP_N, false}, n, count, a, lda, b, ldb);
}
/* The inverse of A from its decomposition: that of the identity's columns, of which a triangle is kept. */
template <class T> status cholesky_invert(handle h, cublasFillMode_t fill, i64 n, T *a, i64 lda, T *work, int *info)
{
    SOLVER_TRY(find_zero(h, n, (const T *)a, lda, info));
    SOLVER_TRY(set_identity(h, n, n, work, most(n, 1)));
    SOLVER_TRY(cholesky_solve(h, fill, n, n, a, lda, work, most(n, 1)));
    const part kept = fill == CUBLAS_FILL_MODE_LOWER ? LOWER_PART : UPPER_PART;
    return copy_matrix(h, CUBLAS_OP_N, kept, n, n, work, most(n, 1), a, lda);
}

template <class T>
static status cholesky_batch(handle h, cublasFillMode_t fill, int n, T **a, int lda, int *infos, int count)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && count >= 0 && (count == 0 || (a && infos)));
    if (count > 0)
        decompose_batch<T>
            <<<count, THREADS, 0, h->stream>>>(fill == CUBLAS_FILL_MODE_LOWER, n, {nullptr, a, 0}, lda, infos);
    return launched();
}
template <class T>
static status cholesky_solve_batch(handle h, cublasFillMode_t fill, int n, int nrhs, T **a, int lda, T **b, int ldb,
                                   int *info, int count)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && is_leading(ldb, n) && count >= 0 && info);
    if (nrhs != 1)
        return nrhs < 0 ? CUSOLVER_STATUS_INVALID_VALUE : CUSOLVER_STATUS_NOT_SUPPORTED;
    if (count > 0 && n > 0)
        solve_batch<T><<<count, THREADS, 0, h->stream>>>(fill == CUBLAS_FILL_MODE_LOWER, n, {nullptr, a, 0}, lda,
                                                         {nullptr, b, 0}, ldb);
    SOLVER_TRY(launched());
    return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
}
} // namespace solver

/* The API's functions for one type of numbers. */
#define SOLVER_CHOLESKY(S, T)                                                                                          \
    using namespace solver;                                                                                            \
    template status solver::cholesky<inside<T>::type>(handle, cublasFillMode_t, i64, inside<T>::type *, i64, int *);   \
    status cusolverDn##S##potrf_bufferSize(handle h, cublasFillMode_t fill, int n, T *, int lda, int *size)            \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && size);                                           \
        *size = (int)most(n, 1);                                                                                       \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##potrf(handle h, cublasFillMode_t fill, int n, T *a, int lda, T *, int size, int *info)       \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && (a || n == 0) && size >= 0 && info);             \
        return cholesky(h, fill, n, in(a), lda, info);                                                                 \
    }                                                                                                                  \
    status cusolverDn##S##potrs(handle h, cublasFillMode_t fill, int n, int nrhs, const T *a, int lda, T *b, int ldb,  \
                                int *info)                                                                             \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && nrhs >= 0 && is_leading(lda, n) && is_leading(ldb, n) && info);        \
        SOLVER_TRY(cholesky_solve(h, fill, n, nrhs, in(a), lda, in(b), ldb));                                          \
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));                                            \
    }                                                                                                                  \
    status cusolverDn##S##potri_bufferSize(handle h, cublasFillMode_t fill, int n, T *, int lda, int *size)            \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && size);                                           \
        *size = (int)most((i64)n * n, 1);                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##potri(handle h, cublasFillMode_t fill, int n, T *a, int lda, T *work, int size, int *info)   \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_fill(fill) && n >= 0 && is_leading(lda, n) && (work || n == 0) && size >= (i64)n * n && info); \
        return cholesky_invert(h, fill, n, in(a), lda, in(work), info);                                                \
    }                                                                                                                  \
    status cusolverDn##S##potrfBatched(handle h, cublasFillMode_t fill, int n, T *a[], int lda, int *infos, int count) \
    {                                                                                                                  \
        return cholesky_batch(h, fill, n, (inside<T>::type **)a, lda, infos, count);                                   \
    }                                                                                                                  \
    status cusolverDn##S##potrsBatched(handle h, cublasFillMode_t fill, int n, int nrhs, T *a[], int lda, T *b[],      \
                                       int ldb, int *info, int count)                                                  \
    {                                                                                                                  \
        return cholesky_solve_batch(h, fill, n, nrhs, (inside<T>::type **)a, lda, (inside<T>::type **)b, ldb, info,    \
                                    count);                                                                            \
    }
