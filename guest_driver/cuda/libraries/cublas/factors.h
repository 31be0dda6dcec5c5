/* Factors of batches of small matrices: LU and QR decompositions, inverses and least squares. A block has one matrix.
 */
#pragma once
#include "matrices.h"

namespace blas
{

/* Row and column of a matrix by columns. */
template <class T> struct columns_of {
    T *first;
    i64 ld;
    __device__ T &operator()(i64 i, i64 j) const
    {
        return first[i + j * ld];
    }
};

#define BLAS_EACH_OF_BATCH(z, count) for (i64 z = blockIdx.x; z < (count); z += gridDim.x)
#define BLAS_EACH_THREAD(i, begin, end) for (i64 i = (begin) + threadIdx.x; i < (end); i += LINE)

/* The row, from k on, with the largest element of column k; all threads have it. */
template <class T> __device__ inline i64 pivot_of(columns_of<T> a, i64 n, i64 k)
{
    __shared__ real_of<T> sizes[LINE];
    __shared__ i64 rows[LINE];
    real_of<T> size = -1;
    i64 row = k;
    BLAS_EACH_THREAD(i, k, n)
    {
        const real_of<T> other = magnitude(a(i, k));
        if (other > size) {
            size = other;
            row = i;
        }
    }
    sizes[threadIdx.x] = size;
    rows[threadIdx.x] = row;
    __syncthreads();
    for (int half = LINE / 2; half > 0; half /= 2) {
        const int other = (int)threadIdx.x + half;
        if ((int)threadIdx.x < half && (sizes[other] > sizes[threadIdx.x] ||
                                        (sizes[other] == sizes[threadIdx.x] && rows[other] < rows[threadIdx.x]))) {
            sizes[threadIdx.x] = sizes[other];
            rows[threadIdx.x] = rows[other];
        }
        __syncthreads();
    }
    const i64 found = rows[0];
    __syncthreads();
    return found;
}

/* A = P L U in place, L with a diagonal of ones; without pivots, P is 1. */
template <class T>
__global__ void __launch_bounds__(LINE) getrf(i64 n, i64 count, batch<T> all, i64 lda, int *pivots, int *found)
{
    BLAS_EACH_OF_BATCH(z, count)
    {
        const columns_of<T> a{all[z], lda};
        int singular = 0;
        for (i64 k = 0; k < n; k++) {
            if (pivots) {
                const i64 pivot = pivot_of(a, n, k);
                if (threadIdx.x == 0)
                    pivots[z * n + k] = (int)pivot + 1;
                if (pivot != k)
                    BLAS_EACH_THREAD(j, 0, n)
                    {
                        const T kept = a(k, j);
                        a(k, j) = a(pivot, j);
                        a(pivot, j) = kept;
                    }
                __syncthreads();
            }
            const T divisor = a(k, k);
            if (divisor == zero<T>()) {
                singular = singular ? singular : (int)k + 1;
                continue;
            }
            BLAS_EACH_THREAD(i, k + 1, n) a(i, k) = a(i, k) / divisor;
            __syncthreads();
            for (i64 j = k + 1; j < n; j++) {
                const T right = a(k, j);
                BLAS_EACH_THREAD(i, k + 1, n) a(i, j) = a(i, j) - a(i, k) * right;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0)
            found[z] = singular;
    }
}

/* Solves for one right-hand side by a triangle of LU, or its transpose. */
template <class T>
__device__ inline void solve_triangle(columns_of<const T> a, i64 n, bool is_lower, bool is_unit, bool is_turned,
                                      bool conjugates, T *x)
{
    const bool forward = is_lower != is_turned;
    for (i64 done = 0; done < n; done++) {
        const i64 i = forward ? done : n - 1 - done;
        T rest = x[i];
        for (i64 q = 0; q < done; q++) {
            const i64 p = forward ? q : n - 1 - q;
            rest = rest - conjugate_if(conjugates, is_turned ? a(p, i) : a(i, p)) * x[p];
        }
        x[i] = is_unit ? rest : rest / conjugate_if(conjugates, a(i, i));
    }
}
template <class T> __device__ inline void permute(const int *pivots, i64 n, bool is_back, T *x)
{
    for (i64 k = 0; pivots && k < n; k++) {
        const i64 i = is_back ? n - 1 - k : k, other = pivots[i] - 1;
        const T kept = x[i];
        x[i] = x[other];
        x[other] = kept;
    }
}

/* op(A) X = B by getrf's factors, a thread per right-hand side. */
template <class T>
__global__ void __launch_bounds__(LINE) getrs(i64 n, i64 sides, i64 count, bool is_turned, bool conjugates,
                                              batch<const T> all, i64 lda, const int *pivots, batch<T> b, i64 ldb)
{
    BLAS_EACH_OF_BATCH(z, count)
    {
        const columns_of<const T> a{all[z], lda};
        const int *own = pivots ? pivots + z * n : nullptr;
        BLAS_EACH_THREAD(side, 0, sides)
        {
            T *x = b[z] + side * ldb;
            if (!is_turned)
                permute(own, n, false, x);
            solve_triangle(a, n, !is_turned, !is_turned, is_turned, conjugates, x);
            solve_triangle(a, n, is_turned, is_turned, is_turned, conjugates, x);
            if (is_turned)
                permute(own, n, true, x);
        }
    }
}

/* The inverse by getrf's factors, a thread per column; none of a singular matrix. */
template <class T>
__global__ void __launch_bounds__(LINE)
    getri(i64 n, i64 count, batch<const T> all, i64 lda, const int *pivots, batch<T> c, i64 ldc, int *found)
{
    BLAS_EACH_OF_BATCH(z, count)
    {
        const columns_of<const T> a{all[z], lda};
        int singular = 0;
        for (i64 k = n - 1; k >= 0; k--)
            singular = a(k, k) == zero<T>() ? (int)k + 1 : singular;
        if (threadIdx.x == 0)
            found[z] = singular;
        if (singular)
            continue;
        BLAS_EACH_THREAD(j, 0, n)
        {
            T *x = c[z] + j * ldc;
            for (i64 i = 0; i < n; i++)
                x[i] = i == j ? one<T>() : zero<T>();
            permute(pivots ? pivots + z * n : nullptr, n, false, x);
            solve_triangle(a, n, true, true, false, false, x);
            solve_triangle(a, n, false, false, false, false, x);
        }
    }
}

template <class T>
__global__ void __launch_bounds__(LINE) gather(i64 n, i64 count, batch<const T> all, i64 lda, batch<T> to)
{
    BLAS_EACH_OF_BATCH(z, count)
    for (i64 j = 0; j < n; j++)
        BLAS_EACH_THREAD(i, 0, n) to[z][i + j * n] = all[z][i + j * lda];
}

/* ---- QR ---- */

template <class T> struct reflection {
    T tau, scale, diagonal;
};
template <class R> __device__ inline reflection<R> reflection_of(R alpha, R rest)
{
    if (rest == 0)
        return {0, 1, alpha};
    const R norm = sqrt(alpha * alpha + rest), beta = alpha < 0 ? norm : -norm;
    return {(beta - alpha) / beta, 1 / (alpha - beta), beta};
}
template <class R> __device__ inline reflection<complex<R>> reflection_of(complex<R> alpha, R rest)
{
    if (rest == 0 && alpha.y == 0)
        return {{0, 0}, {1, 0}, alpha};
    const R norm = sqrt(alpha.x * alpha.x + alpha.y * alpha.y + rest), beta = alpha.x < 0 ? norm : -norm;
    return {{(beta - alpha.x) / beta, -alpha.y / beta}, one<complex<R>>() / (alpha - complex<R>{beta, 0}), {beta, 0}};
}
template <class R> __device__ inline R square(R x)
{
    return x * x;
}
template <class R> __device__ inline R square(complex<R> x)
{
    return x.x * x.x + x.y * x.y;
}

/* x = (1 - tau' v v^H) x for the vector v below element k of column k, which itself counts as 1. */
template <class T> __device__ inline void reflect(columns_of<const T> a, i64 m, i64 k, T tau, T *x)
{
    T sum = x[k];
    for (i64 i = k + 1; i < m; i++)
        add_product(sum, conjugate(a(i, k)), x[i]);
    sum = conjugate(tau) * sum;
    x[k] = x[k] - sum;
    for (i64 i = k + 1; i < m; i++)
        x[i] = x[i] - sum * a(i, k);
}

/* A = Q R in place: R above, the vectors of Q's reflections below the diagonal. */
template <class T>
__global__ void __launch_bounds__(LINE) geqrf(i64 m, i64 n, i64 count, batch<T> all, i64 lda, batch<T> taus)
{
    __shared__ real_of<T> parts[LINE];
    BLAS_EACH_OF_BATCH(z, count)
    {
        const columns_of<T> a{all[z], lda};
        for (i64 k = 0; k < (m < n ? m : n); k++) {
            real_of<T> rest = 0;
            BLAS_EACH_THREAD(i, k + 1, m) rest += square(a(i, k));
            parts[threadIdx.x] = rest;
            __syncthreads();
            rest = 0;
            for (int i = 0; i < LINE; i++)
                rest += parts[i];
            const reflection<T> by = reflection_of(a(k, k), rest);
            __syncthreads();
            BLAS_EACH_THREAD(i, k + 1, m) a(i, k) = a(i, k) * by.scale;
            if (threadIdx.x == 0) {
                a(k, k) = by.diagonal;
                taus[z][k] = by.tau;
            }
            __syncthreads();
            BLAS_EACH_THREAD(j, k + 1, n) reflect(columns_of<const T>{a.first, lda}, m, k, by.tau, &a(0, j));
            __syncthreads();
        }
    }
}

/* The X for which A X - B is least, by geqrf's factors, in the first rows of B; a thread per right-hand side. */
template <class T>
__global__ void __launch_bounds__(LINE) gels(i64 m, i64 n, i64 sides, i64 count, batch<const T> all, i64 lda,
                                             batch<const T> taus, batch<T> b, i64 ldb, int *found)
{
    BLAS_EACH_OF_BATCH(z, count)
    {
        const columns_of<const T> a{all[z], lda};
        int singular = 0;
        for (i64 k = n - 1; k >= 0; k--)
            singular = a(k, k) == zero<T>() ? (int)k + 1 : singular;
        if (threadIdx.x == 0 && found)
            found[z] = singular;
        if (singular)
            continue;
        BLAS_EACH_THREAD(side, 0, sides)
        {
            T *x = b[z] + side * ldb;
            for (i64 k = 0; k < n; k++)
                reflect(a, m, k, taus[z][k], x);
            solve_triangle(a, n, false, false, false, false, x);
        }
    }
}

/* ---- the functions of the API call these ---- */

#define BLAS_BATCH(count) (unsigned)least(count, 65535), LINE, 0, handle->stream
constexpr int MOST_INVERTED = 32; /* rows that matinvBatched takes */

template <class T>
static cublasStatus_t do_getrf(cublasHandle_t handle, i64 n, batch<T> a, i64 lda, int *pivots, int *found, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(n >= 0 && count >= 0 && lda >= at_least_one(n));
    if (count == 0)
        return CUBLAS_STATUS_SUCCESS;
    BLAS_CHECK(found);
    getrf<T><<<BLAS_BATCH(count)>>>(n, count, a, lda, pivots, found);
    return launched();
}

/* Tells in *wrong which parameter is wrong, as a negative number; `checks` are in their order from `first` on. */
static inline bool tell(int *wrong, int first, const bool *checks, int n)
{
    *wrong = 0;
    for (int i = n - 1; i >= 0; i--)
        if (!checks[i])
            *wrong = -(first + i);
    return *wrong == 0;
}

template <class T>
static cublasStatus_t do_getrs(cublasHandle_t handle, cublasOperation_t op, i64 n, i64 sides, batch<const T> a, i64 lda,
                               const int *pivots, batch<T> b, i64 ldb, int *wrong, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(wrong);
    const bool checks[] = {is_operation(op) && op != CUBLAS_OP_CONJG,
                           n >= 0,
                           sides >= 0,
                           count == 0 || a.table,
                           lda >= at_least_one(n),
                           true,
                           count == 0 || b.table,
                           ldb >= at_least_one(n),
                           true,
                           count >= 0};
    BLAS_CHECK(tell(wrong, 1, checks, 10));
    if (n == 0 || sides == 0 || count == 0)
        return CUBLAS_STATUS_SUCCESS;
    getrs<T><<<BLAS_BATCH(count)>>>(n, sides, count, is_turned(op), op == CUBLAS_OP_C, a, lda, pivots, b, ldb);
    return launched();
}

template <class T>
static cublasStatus_t do_getri(cublasHandle_t handle, i64 n, batch<const T> a, i64 lda, const int *pivots, batch<T> c,
                               i64 ldc, int *found, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(n >= 0 && count >= 0 && lda >= at_least_one(n) && ldc >= at_least_one(n));
    if (count == 0)
        return CUBLAS_STATUS_SUCCESS;
    BLAS_CHECK(found);
    getri<T><<<BLAS_BATCH(count)>>>(n, count, a, lda, pivots, c, ldc, found);
    return launched();
}

template <class T>
static cublasStatus_t do_matinv(cublasHandle_t handle, i64 n, batch<const T> a, i64 lda, batch<T> inverse, i64 ld,
                                int *found, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(n >= 0 && n <= MOST_INVERTED && count >= 0 && lda >= at_least_one(n) && ld >= at_least_one(n));
    if (count == 0)
        return CUBLAS_STATUS_SUCCESS;
    BLAS_CHECK(found);
    T *memory;
    const size_t factors = (size_t)(count * n * n) * sizeof(T);
    if (cudaError_t failed = cudaMallocAsync(&memory, factors + (size_t)(count * n) * sizeof(int) + 1, handle->stream))
        return status_of(failed);
    int *const pivots = (int *)((char *)memory + factors);
    gather<T><<<BLAS_BATCH(count)>>>(n, count, a, lda, {memory, nullptr, n * n});
    getrf<T><<<BLAS_BATCH(count)>>>(n, count, {memory, nullptr, n * n}, n, pivots, found);
    getri<T><<<BLAS_BATCH(count)>>>(n, count, {memory, nullptr, n * n}, n, pivots, inverse, ld, found);
    const cublasStatus_t status = launched();
    cudaFreeAsync(memory, handle->stream);
    return status;
}

template <class T>
static cublasStatus_t do_geqrf(cublasHandle_t handle, i64 m, i64 n, batch<T> a, i64 lda, batch<T> tau, int *wrong,
                               i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(wrong);
    const bool checks[] = {m >= 0, n >= 0,    count == 0 || a.table, lda >= at_least_one(m), count == 0 || tau.table,
                           true,   count >= 0};
    BLAS_CHECK(tell(wrong, 1, checks, 7));
    if (m == 0 || n == 0 || count == 0)
        return CUBLAS_STATUS_SUCCESS;
    geqrf<T><<<BLAS_BATCH(count)>>>(m, n, count, a, lda, tau);
    return launched();
}

template <class T>
static cublasStatus_t do_gels(cublasHandle_t handle, cublasOperation_t op, i64 m, i64 n, i64 sides, batch<T> a, i64 lda,
                              batch<T> c, i64 ldc, int *wrong, int *found, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(wrong);
    const bool checks[] = {is_operation(op),
                           m >= 0,
                           n >= 0,
                           sides >= 0,
                           count == 0 || a.table,
                           lda >= at_least_one(m),
                           count == 0 || c.table,
                           ldc >= at_least_one(m),
                           true,
                           true,
                           count >= 0};
    BLAS_CHECK(tell(wrong, 1, checks, 11));
    if (op != CUBLAS_OP_N || m < n)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (n == 0 || count == 0)
        return CUBLAS_STATUS_SUCCESS;
    T *memory;
    if (cudaError_t failed = cudaMallocAsync(&memory, (size_t)(count * n) * sizeof(T), handle->stream))
        return status_of(failed);
    geqrf<T><<<BLAS_BATCH(count)>>>(m, n, count, a, lda, {memory, nullptr, n});
    gels<T><<<BLAS_BATCH(count)>>>(m, n, sides, count, {a.first, (const T *const *)a.table, 0}, lda,
                                   {memory, nullptr, n}, c, ldc, found);
    const cublasStatus_t status = launched();
    cudaFreeAsync(memory, handle->stream);
    return status;
}

} // namespace blas

#define BLAS_FACTORS(S, T)                                                                                             \
    cublasStatus_t cublas##S##getrfBatched(cublasHandle_t h, int n, T *const a[], int lda, int *pivots, int *found,    \
                                           int count)                                                                  \
    {                                                                                                                  \
        return blas::do_getrf(h, n, blas::table_of(a), lda, pivots, found, count);                                     \
    }                                                                                                                  \
    cublasStatus_t cublas##S##getrsBatched(cublasHandle_t h, cublasOperation_t op, int n, int sides,                   \
                                           const T *const a[], int lda, const int *pivots, T *const b[], int ldb,      \
                                           int *wrong, int count)                                                      \
    {                                                                                                                  \
        return blas::do_getrs(h, op, n, sides, blas::table_of(a), lda, pivots, blas::table_of(b), ldb, wrong, count);  \
    }                                                                                                                  \
    cublasStatus_t cublas##S##getriBatched(cublasHandle_t h, int n, const T *const a[], int lda, const int *pivots,    \
                                           T *const c[], int ldc, int *found, int count)                               \
    {                                                                                                                  \
        return blas::do_getri(h, n, blas::table_of(a), lda, pivots, blas::table_of(c), ldc, found, count);             \
    }                                                                                                                  \
    cublasStatus_t cublas##S##matinvBatched(cublasHandle_t h, int n, const T *const a[], int lda, T *const inverse[],  \
                                            int ld, int *found, int count)                                             \
    {                                                                                                                  \
        return blas::do_matinv(h, n, blas::table_of(a), lda, blas::table_of(inverse), ld, found, count);               \
    }                                                                                                                  \
    cublasStatus_t cublas##S##geqrfBatched(cublasHandle_t h, int m, int n, T *const a[], int lda, T *const tau[],      \
                                           int *wrong, int count)                                                      \
    {                                                                                                                  \
        return blas::do_geqrf(h, m, n, blas::table_of(a), lda, blas::table_of(tau), wrong, count);                     \
    }                                                                                                                  \
    cublasStatus_t cublas##S##gelsBatched(cublasHandle_t h, cublasOperation_t op, int m, int n, int sides,             \
                                          T *const a[], int lda, T *const c[], int ldc, int *wrong, int *found,        \
                                          int count)                                                                   \
    {                                                                                                                  \
        return blas::do_gels(h, op, m, n, sides, blas::table_of(a), lda, blas::table_of(c), ldc, wrong, found, count); \
    }
