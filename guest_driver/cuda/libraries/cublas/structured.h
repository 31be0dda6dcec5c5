/* Vectors with matrices of which a part is stored: symmetric, Hermitian and triangular ones, whole, packed or in bands.
 *
 * A `structure` tells where the elements lie, so that one kernel serves every form of storage. */
#pragma once
#include "matrices.h"

namespace blas
{

/* Where element (row, column) lies. A packed triangle's columns begin a growing, or shrinking, number of elements
 * behind each other: `bend` is 1 or -1 for it. */
struct storage {
    i64 step, shift;
    int bend;
    __host__ __device__ i64 at(i64 row, i64 column) const
    {
        return row + column * step + shift + bend * (column * (column - 1) / 2);
    }
};
static inline storage whole(i64 ld)
{
    return {ld, 0, 0};
}
static inline storage packed(cublasFillMode_t fill, i64 n)
{
    return fill == CUBLAS_FILL_MODE_LOWER ? storage{n - 1, 0, -1} : storage{1, 0, 1};
}
/* `above`: diagonals above the main one, which are stored first. */
static inline storage band(i64 above, i64 ld)
{
    return {ld - 1, above, 0};
}

/* The elements of op(M) on one side of the diagonal, `width` of each row. */
struct flank {
    i64 width;
    bool is_mirrored; /* element (i, p) is read as (p, i) */
    bool conjugates;
};
enum diagonal { STORED, REAL, UNIT };

template <class T> struct structure {
    const T *data;
    storage place;
    flank below, above;
    diagonal middle;
    __device__ T beside(flank part, i64 i, i64 p) const
    {
        return conjugate_if(part.conjugates, data[part.is_mirrored ? place.at(p, i) : place.at(i, p)]);
    }
    __device__ T on_diagonal(i64 i) const
    {
        if (middle == UNIT)
            return one<T>();
        const T stored = conjugate_if(below.conjugates && above.conjugates, data[place.at(i, i)]);
        return middle == REAL ? real_part(stored) : stored;
    }
};

/* y = alpha op(M) x + beta y for op(M) of m rows and n columns, a thread per row. */
template <class T>
__global__ void structured_product(i64 m, i64 n, scalar<T> alpha, structure<T> a, vector<const T> x, scalar<T> beta,
                                   vector<T> y)
{
    const T times = alpha.get(), keep = beta.get();
    const bool reads = !(times == zero<T>());
    BLAS_EACH_LINE(i, m)
    {
        T sum = zero<T>();
        const i64 first = i > a.below.width ? i - a.below.width : 0, end = reads ? (i < n ? i : n) : first;
        for (i64 p = first; p < end; p++)
            add_product(sum, a.beside(a.below, i, p), x[p]);
        if (reads && i < n)
            add_product(sum, a.on_diagonal(i), x[i]);
        const i64 last = reads ? (a.above.width < n - 1 - i ? i + a.above.width : n - 1) : i;
        for (i64 p = i + 1; p <= last; p++)
            add_product(sum, a.beside(a.above, i, p), x[p]);
        blend(y[i], sum, times, keep);
    }
}

/* Solves op(M) x = x for a triangle: each element, once known, is taken out of those behind it. One block. */
template <class T>
__global__ void __launch_bounds__(LINE) structured_solve(i64 n, bool is_lower, structure<T> a, vector<T> x)
{
    for (i64 done = 0; done < n; done++) {
        const i64 i = is_lower ? done : n - 1 - done;
        const T known = a.middle == UNIT ? x[i] : x[i] / a.on_diagonal(i);
        __syncthreads();
        if (threadIdx.x == 0)
            x[i] = known;
        const flank part = is_lower ? a.below : a.above;
        const i64 left = is_lower ? n - 1 - i : i, count = part.width < left ? part.width : left;
        for (i64 q = threadIdx.x; q < count; q += LINE) {
            const i64 p = is_lower ? i + 1 + q : i - 1 - q;
            x[p] = x[p] - a.beside(part, p, i) * known;
        }
        __syncthreads();
    }
}

template <class T> __global__ void copy_elements(i64 n, vector<const T> x, T *to)
{
    BLAS_EACH_LINE(i, n) to[i] = x[i];
}

/* How a triangle is changed: A += alpha x y', and alpha' y x' to it if `is_double`; x' is x^H of Hermitian matrices. */
struct update {
    storage place;
    bool is_lower, is_hermitian, is_double;
};
template <class T, class F>
__global__ void rank_update(i64 n, update how, scalar<F> alpha, vector<const T> x, vector<const T> y, T *a)
{
    const F times = alpha.get();
    if (times == zero<F>())
        return;
    for (i64 j = blockIdx.y; j < n; j += gridDim.y) {
        const T right = times * conjugate_if(how.is_hermitian, y[j]);
        const T other = conjugate_if(how.is_hermitian, times) * conjugate_if(how.is_hermitian, x[j]);
        BLAS_EACH_LINE(i, n)
        {
            if (how.is_lower ? i < j : i > j)
                continue;
            T &to = a[how.place.at(i, j)];
            T sum = to + x[i] * right;
            if (how.is_double)
                sum += y[i] * other;
            to = how.is_hermitian && i == j ? real_part(sum) : sum;
        }
    }
}

/* ---- the functions of the API call these ---- */

static inline bool is_fill(cublasFillMode_t fill)
{
    return fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER;
}
/* Symmetric: what is stored on one side is read on both. */
template <class T>
static structure<T> mirrored(cublasFillMode_t fill, bool is_hermitian, i64 width, const T *a, storage place)
{
    const flank stored{width, false, false}, other{width, true, is_hermitian};
    const bool is_lower = fill == CUBLAS_FILL_MODE_LOWER;
    return {a, place, is_lower ? stored : other, is_lower ? other : stored, is_hermitian ? REAL : STORED};
}
static inline bool is_lower_of(triangle form)
{
    return (form.fill == CUBLAS_FILL_MODE_LOWER) != is_turned(form.op);
}
template <class T> static structure<T> triangular(triangle form, i64 width, const T *a, storage place)
{
    const bool conjugates = form.op == CUBLAS_OP_C || form.op == CUBLAS_OP_CONJG;
    const flank stored{width, is_turned(form.op), conjugates}, none{0, false, conjugates};
    const bool is_lower = is_lower_of(form);
    return {a, place, is_lower ? stored : none, is_lower ? none : stored,
            form.diagonal == CUBLAS_DIAG_UNIT ? UNIT : STORED};
}

template <class T>
static cublasStatus_t launch_product(cublasHandle_t handle, i64 m, i64 n, const T *alpha, structure<T> a, const T *x,
                                     i64 incx, const T *beta, T *y, i64 incy)
{
    const scalar<T> times = scalar_of(handle, alpha), keep = scalar_of(handle, beta);
    if (m == 0 || n == 0 || (is(times, zero<T>()) && is(keep, one<T>())))
        return CUBLAS_STATUS_SUCCESS;
    structured_product<T><<<line_blocks(m), LINE, 0, handle->stream>>>(m, n, times, a, vector_of(x, n, incx), keep,
                                                                       vector_of(y, m, incy));
    return launched();
}

/* symv, sbmv and spmv, and their Hermitian fellows; `room`: whether the leading dimension suffices. */
template <class T>
static cublasStatus_t do_symv(cublasHandle_t handle, cublasFillMode_t fill, bool is_hermitian, i64 n, i64 width,
                              bool room, storage place, const T *alpha, const T *a, const T *x, i64 incx, const T *beta,
                              T *y, i64 incy)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_fill(fill) && n >= 0 && width >= 0 && room && incx && incy && alpha && beta);
    return launch_product(handle, n, n, alpha, mirrored(fill, is_hermitian, width, a, place), x, incx, beta, y, incy);
}

template <class T>
static cublasStatus_t do_gbmv(cublasHandle_t handle, cublasOperation_t op, i64 m, i64 n, i64 below, i64 above,
                              const T *alpha, const T *a, i64 lda, const T *x, i64 incx, const T *beta, T *y, i64 incy)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_operation(op) && m >= 0 && n >= 0 && below >= 0 && above >= 0 && lda > below + above && incx &&
               incy && alpha && beta);
    const bool turned = is_turned(op), conjugates = op == CUBLAS_OP_C || op == CUBLAS_OP_CONJG;
    const flank first{turned ? above : below, turned, conjugates}, second{turned ? below : above, turned, conjugates};
    const structure<T> form{a, band(above, lda), first, second, STORED};
    return launch_product(handle, turned ? n : m, turned ? m : n, alpha, form, x, incx, beta, y, incy);
}

template <class T>
static cublasStatus_t do_trmv(cublasHandle_t handle, triangle form, i64 n, i64 width, bool room, storage place,
                              const T *a, T *x, i64 incx)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(form.is_right() && n >= 0 && width >= 0 && room && incx);
    if (n == 0)
        return CUBLAS_STATUS_SUCCESS;
    T *copy;
    if (cudaError_t failed = cudaMallocAsync(&copy, (size_t)n * sizeof(T), handle->stream))
        return status_of(failed);
    const vector<T> to = vector_of(x, n, incx);
    copy_elements<T><<<line_blocks(n), LINE, 0, handle->stream>>>(n, vector<const T>{to.first, to.step}, copy);
    structured_product<T><<<line_blocks(n), LINE, 0, handle->stream>>>(
        n, n, scalar<T>{one<T>(), nullptr}, triangular(form, width, a, place), vector<const T>{copy, 1},
        scalar<T>{zero<T>(), nullptr}, to);
    const cublasStatus_t status = launched();
    cudaFreeAsync(copy, handle->stream);
    return status;
}

template <class T>
static cublasStatus_t do_trsv(cublasHandle_t handle, triangle form, i64 n, i64 width, bool room, storage place,
                              const T *a, T *x, i64 incx)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(form.is_right() && n >= 0 && width >= 0 && room && incx);
    if (n == 0)
        return CUBLAS_STATUS_SUCCESS;
    structured_solve<T><<<1, LINE, 0, handle->stream>>>(n, is_lower_of(form), triangular(form, width, a, place),
                                                        vector_of(x, n, incx));
    return launched();
}

template <class T, class F>
static cublasStatus_t do_update(cublasHandle_t handle, cublasFillMode_t fill, i64 n, bool room, update how,
                                const F *alpha, const T *x, i64 incx, const T *y, i64 incy, T *a)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(is_fill(fill) && n >= 0 && room && incx && incy && alpha);
    const scalar<F> times = scalar_of(handle, alpha);
    if (n == 0 || is(times, zero<F>()))
        return CUBLAS_STATUS_SUCCESS;
    rank_update<T, F>
        <<<plane(n, n), LINE, 0, handle->stream>>>(n, how, times, vector_of(x, n, incx), vector_of(y, n, incy), a);
    return launched();
}

} // namespace blas

/* The API's functions for one type of numbers and both widths of integers: of symmetric and Hermitian matrices, ... */
#define BLAS_SYMV(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const T *alpha, const T *a,      \
                                        I lda, const T *x, I incx, const T *beta, T *y, I incy)                        \
    {                                                                                                                  \
        return blas::do_symv(h, fill, is_hermitian, n, n, lda >= blas::at_least_one(n), blas::whole(lda),              \
                             blas::in(alpha), blas::in(a), blas::in(x), incx, blas::in(beta), blas::in(y), incy);      \
    }
#define BLAS_SBMV(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, I k, const T *alpha, const T *a, \
                                        I lda, const T *x, I incx, const T *beta, T *y, I incy)                        \
    {                                                                                                                  \
        return blas::do_symv(h, fill, is_hermitian, n, k, lda > k,                                                     \
                             blas::band(fill == CUBLAS_FILL_MODE_UPPER ? k : 0, lda), blas::in(alpha), blas::in(a),    \
                             blas::in(x), incx, blas::in(beta), blas::in(y), incy);                                    \
    }
#define BLAS_SPMV(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const T *alpha, const T *packed, \
                                        const T *x, I incx, const T *beta, T *y, I incy)                               \
    {                                                                                                                  \
        return blas::do_symv(h, fill, is_hermitian, n, n, true, blas::packed(fill, n), blas::in(alpha),                \
                             blas::in(packed), blas::in(x), incx, blas::in(beta), blas::in(y), incy);                  \
    }
/* ... of changes to them, whose factor is an F, ... */
#define BLAS_SYR(name, is_hermitian, T, F, w, I)                                                                       \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const F *alpha, const T *x,      \
                                        I incx, T *a, I lda)                                                           \
    {                                                                                                                  \
        return blas::do_update(h, fill, n, lda >= blas::at_least_one(n),                                               \
                               blas::update{blas::whole(lda), fill == CUBLAS_FILL_MODE_LOWER, is_hermitian, false},    \
                               blas::in(alpha), blas::in(x), incx, blas::in(x), incx, blas::in(a));                    \
    }
#define BLAS_SPR(name, is_hermitian, T, F, w, I)                                                                       \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const F *alpha, const T *x,      \
                                        I incx, T *packed)                                                             \
    {                                                                                                                  \
        return blas::do_update(                                                                                        \
            h, fill, n, true,                                                                                          \
            blas::update{blas::packed(fill, n), fill == CUBLAS_FILL_MODE_LOWER, is_hermitian, false}, blas::in(alpha), \
            blas::in(x), incx, blas::in(x), incx, blas::in(packed));                                                   \
    }
#define BLAS_SYR2(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const T *alpha, const T *x,      \
                                        I incx, const T *y, I incy, T *a, I lda)                                       \
    {                                                                                                                  \
        return blas::do_update(h, fill, n, lda >= blas::at_least_one(n),                                               \
                               blas::update{blas::whole(lda), fill == CUBLAS_FILL_MODE_LOWER, is_hermitian, true},     \
                               blas::in(alpha), blas::in(x), incx, blas::in(y), incy, blas::in(a));                    \
    }
#define BLAS_SPR2(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, I n, const T *alpha, const T *x,      \
                                        I incx, const T *y, I incy, T *packed)                                         \
    {                                                                                                                  \
        return blas::do_update(                                                                                        \
            h, fill, n, true, blas::update{blas::packed(fill, n), fill == CUBLAS_FILL_MODE_LOWER, is_hermitian, true}, \
            blas::in(alpha), blas::in(x), incx, blas::in(y), incy, blas::in(packed));                                  \
    }
/* ... and of triangles and bands. `kind`: mv or sv, products or solutions. */
#define BLAS_TRIANGULAR(S, T, kind, w, I)                                                                              \
    cublasStatus_t cublas##S##tr##kind##_v2##w(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op,          \
                                               cublasDiagType_t diagonal, I n, const T *a, I lda, T *x, I incx)        \
    {                                                                                                                  \
        return blas::do_tr##kind(h, {fill, op, diagonal}, n, n, lda >= blas::at_least_one(n), blas::whole(lda),        \
                                 blas::in(a), blas::in(x), incx);                                                      \
    }                                                                                                                  \
    cublasStatus_t cublas##S##tb##kind##_v2##w(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op,          \
                                               cublasDiagType_t diagonal, I n, I k, const T *a, I lda, T *x, I incx)   \
    {                                                                                                                  \
        return blas::do_tr##kind(h, {fill, op, diagonal}, n, k, lda > k,                                               \
                                 blas::band(fill == CUBLAS_FILL_MODE_UPPER ? k : 0, lda), blas::in(a), blas::in(x),    \
                                 incx);                                                                                \
    }                                                                                                                  \
    cublasStatus_t cublas##S##tp##kind##_v2##w(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op,          \
                                               cublasDiagType_t diagonal, I n, const T *packed, T *x, I incx)          \
    {                                                                                                                  \
        return blas::do_tr##kind(h, {fill, op, diagonal}, n, n, true, blas::packed(fill, n), blas::in(packed),         \
                                 blas::in(x), incx);                                                                   \
    }
#define BLAS_GBMV(S, T, w, I)                                                                                          \
    cublasStatus_t cublas##S##gbmv_v2##w(cublasHandle_t h, cublasOperation_t op, I m, I n, I below, I above,           \
                                         const T *alpha, const T *a, I lda, const T *x, I incx, const T *beta, T *y,   \
                                         I incy)                                                                       \
    {                                                                                                                  \
        return blas::do_gbmv(h, op, m, n, below, above, blas::in(alpha), blas::in(a), lda, blas::in(x), incx,          \
                             blas::in(beta), blas::in(y), incy);                                                       \
    }
#define BLAS_STRUCTURED(S, T)                                                                                          \
    BLAS_BOTH_SIZES(BLAS_SYMV, S##symv, false, T)                                                                      \
    BLAS_BOTH_SIZES(BLAS_SYR, S##syr, false, T, T)                                                                     \
    BLAS_BOTH_SIZES(BLAS_SYR2, S##syr2, false, T)                                                                      \
    BLAS_BOTH_SIZES(BLAS_TRIANGULAR, S, T, mv)                                                                         \
    BLAS_BOTH_SIZES(BLAS_TRIANGULAR, S, T, sv)                                                                         \
    BLAS_BOTH_SIZES(BLAS_GBMV, S, T)
