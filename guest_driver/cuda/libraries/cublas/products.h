/* Products of symmetric, Hermitian and triangular matrices, and changes of a triangle by products. */
#pragma once
#include "matrices.h"

namespace blas
{

enum shape { ANY, SYMMETRIC, HERMITIAN, TRIANGULAR, UNIT_TRIANGULAR };

/* Reads op(M), of which one triangle may be stored: element (i, p) lies i * row + p * column behind `data`. */
template <class T> struct part_reader {
    const T *data;
    i64 row, column;
    shape form;
    bool conjugates, is_lower; /* the stored triangle is the lower one of op(M) */
    template <class Sum> __device__ Sum get(i64, i64 i, i64 p) const
    {
        const bool is_stored = form == ANY || (is_lower ? i >= p : i <= p);
        if (form >= TRIANGULAR && (!is_stored || (form == UNIT_TRIANGULAR && i == p)))
            return is_stored ? one<T>() : zero<T>();
        const T value = data[is_stored ? i * row + p * column : p * row + i * column];
        if (form == HERMITIAN && i == p)
            return real_part(value);
        return conjugate_if(conjugates != (form == HERMITIAN && !is_stored), value);
    }
};

/* A complex factor in place of a real one, or its conjugate. */
template <class T, class F> __global__ void make_factor(const F *from, bool conjugates, T *to)
{
    *to = conjugate_if(conjugates, widen_factor<T>(*from));
}

template <class T> static part_reader<T> reader_of(cublasOperation_t op, const T *a, i64 ld)
{
    return {a, is_turned(op) ? ld : 1, is_turned(op) ? 1 : ld, ANY, op == CUBLAS_OP_C || op == CUBLAS_OP_CONJG, false};
}
template <class T> static part_reader<T> turned(part_reader<T> read, bool conjugates)
{
    return {read.data, read.column, read.row, read.form, read.conjugates != conjugates, !read.is_lower};
}

template <class T, class F> static scalar<T> factor_of(cublasHandle_t handle, const F *at, bool conjugates)
{
    if (handle->pointer_mode != CUBLAS_POINTER_MODE_DEVICE)
        return {conjugate_if(conjugates, widen_factor<T>(*at)), nullptr};
    T *const to = (T *)next_slot(handle);
    make_factor<T, F><<<1, 1, 0, handle->stream>>>(at, conjugates, to);
    return {T{}, to};
}

/* C = alpha op(A) op(B) + beta C, or a triangle of it. */
template <class T>
static cublasStatus_t multiply(cublasHandle_t handle, i64 m, i64 n, i64 k, scalar<T> alpha, part_reader<T> a,
                               part_reader<T> b, scalar<T> beta, T *c, i64 ldc, kept part)
{
    if (m == 0 || n == 0 || ((k == 0 || is(alpha, zero<T>())) && is(beta, one<T>())))
        return CUBLAS_STATUS_SUCCESS;
    if (is(alpha, zero<T>()))
        k = 0;
    const bool is_plain =
        b.form == ANY && !b.conjugates && (b.row == 1 || k * b.row * (i64)sizeof(T) <= MOST_SCATTERED);
    const target<T, T, T> to{alpha, beta, {c, nullptr, 0}, ldc, part};
    return by_panels<T>(handle->stream, m, n, k, a, b, is_plain ? b.data : nullptr, b.row, b.column, to, 0);
}

struct sided {
    cublasSideMode_t side;
    cublasFillMode_t fill;
    bool is_right() const
    {
        return (side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT) &&
               (fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER);
    }
};

template <class T>
static cublasStatus_t do_symm(cublasHandle_t handle, sided how, bool is_hermitian, i64 m, i64 n, const T *alpha,
                              const T *a, i64 lda, const T *b, i64 ldb, const T *beta, T *c, i64 ldc)
{
    BLAS_CHECK_HANDLE(handle);
    const bool is_left = how.side == CUBLAS_SIDE_LEFT;
    BLAS_CHECK(how.is_right() && m >= 0 && n >= 0 && lda >= at_least_one(is_left ? m : n) && ldb >= at_least_one(m) &&
               ldc >= at_least_one(m) && alpha && beta);
    const part_reader<T> own{
        a, 1, lda, is_hermitian ? HERMITIAN : SYMMETRIC, false, how.fill == CUBLAS_FILL_MODE_LOWER};
    const part_reader<T> other = reader_of(CUBLAS_OP_N, b, ldb);
    return multiply(handle, m, n, is_left ? m : n, scalar_of(handle, alpha), is_left ? own : other,
                    is_left ? other : own, scalar_of(handle, beta), c, ldc, ALL);
}

/* Sizes of a triangle's change: C of n rows, op(A) and op(B) of k columns. */
struct change {
    cublasFillMode_t fill;
    cublasOperation_t op;
    i64 n, k, lda, ldb, ldc;
    bool is_hermitian;
    bool is_right() const
    {
        const i64 rows = at_least_one(op == CUBLAS_OP_N ? n : k);
        return (fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER) && is_operation(op) &&
               op != CUBLAS_OP_CONJG && n >= 0 && k >= 0 && lda >= rows && ldb >= rows && ldc >= at_least_one(n);
    }
    kept part() const
    {
        if (fill == CUBLAS_FILL_MODE_LOWER)
            return is_hermitian ? LOWER_HERMITIAN : LOWER;
        return is_hermitian ? UPPER_HERMITIAN : UPPER;
    }
    template <class T> part_reader<T> read(const T *a, i64 ld) const
    {
        part_reader<T> made = reader_of(op, a, ld);
        made.conjugates = is_hermitian && op != CUBLAS_OP_N;
        return made;
    }
};

/* C = alpha op(A) op(B)' + beta C: syrk, syrkx and their Hermitian fellows; and alpha' op(B) op(A)' to it: syr2k.
 * Complex symmetric matrices are transposed, never conjugated. */
template <class T, class F, class G>
static cublasStatus_t do_syrk(cublasHandle_t handle, change how, bool is_double, const F *alpha, const T *a, const T *b,
                              const G *beta, T *c)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(how.is_right() && alpha && beta &&
               (how.is_hermitian ? how.op != CUBLAS_OP_T || !number<T>::is_complex
                                 : how.op != CUBLAS_OP_C || !number<T>::is_complex));
    const bool to_host = handle->pointer_mode != CUBLAS_POINTER_MODE_DEVICE;
    if (how.n == 0 || (to_host && (how.k == 0 || *alpha == zero<F>()) && *beta == one<G>()))
        return CUBLAS_STATUS_SUCCESS;
    const part_reader<T> left = how.read(a, how.lda), right = how.read(b, how.ldb);
    const scalar<T> times = factor_of<T>(handle, alpha, false), keep = factor_of<T>(handle, beta, false);
    cublasStatus_t status = multiply(handle, how.n, how.n, how.k, times, left, turned(right, how.is_hermitian), keep, c,
                                     how.ldc, how.part());
    if (is_double && !status)
        status = multiply(handle, how.n, how.n, how.k, factor_of<T>(handle, alpha, how.is_hermitian), right,
                          turned(left, how.is_hermitian), scalar<T>{one<T>(), nullptr}, c, how.ldc, how.part());
    return status;
}

/* C = alpha op(A) B or alpha B op(A); C may be B. */
template <class T>
static cublasStatus_t do_trmm(cublasHandle_t handle, cublasSideMode_t side, triangle form, i64 m, i64 n, const T *alpha,
                              const T *a, i64 lda, const T *b, i64 ldb, T *c, i64 ldc)
{
    BLAS_CHECK_HANDLE(handle);
    const bool is_left = side == CUBLAS_SIDE_LEFT;
    BLAS_CHECK((is_left || side == CUBLAS_SIDE_RIGHT) && form.is_right() && m >= 0 && n >= 0 &&
               lda >= at_least_one(is_left ? m : n) && ldb >= at_least_one(m) && ldc >= at_least_one(m) && alpha);
    BLAS_CHECK(b != c || ldb == ldc);
    if (m == 0 || n == 0)
        return CUBLAS_STATUS_SUCCESS;
    part_reader<T> own = reader_of(form.op, a, lda), other = reader_of(CUBLAS_OP_N, b, ldb);
    own.form = form.diagonal == CUBLAS_DIAG_UNIT ? UNIT_TRIANGULAR : TRIANGULAR;
    own.is_lower = (form.fill == CUBLAS_FILL_MODE_LOWER) != is_turned(form.op);
    T *copy = nullptr;
    if (b == c) {
        const size_t pitch = (size_t)m * sizeof(T);
        cudaError_t error = cudaMallocAsync(&copy, pitch * (size_t)n, handle->stream);
        if (error == cudaSuccess)
            error = cudaMemcpy2DAsync(copy, pitch, b, (size_t)ldb * sizeof(T), pitch, (size_t)n,
                                      cudaMemcpyDeviceToDevice, handle->stream);
        if (error != cudaSuccess)
            return status_of(error);
        other = reader_of(CUBLAS_OP_N, (const T *)copy, m);
    }
    const cublasStatus_t status =
        multiply(handle, m, n, is_left ? m : n, scalar_of(handle, alpha), is_left ? own : other, is_left ? other : own,
                 scalar<T>{zero<T>(), nullptr}, c, ldc, ALL);
    if (copy)
        cudaFreeAsync(copy, handle->stream);
    return status;
}

} // namespace blas

/* The API's functions for one type of numbers and both widths of integers; F and G: the types of alpha and beta. */
#define BLAS_SYMM(name, is_hermitian, T, w, I)                                                                         \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill, I m, I n,      \
                                        const T *alpha, const T *a, I lda, const T *b, I ldb, const T *beta, T *c,     \
                                        I ldc)                                                                         \
    {                                                                                                                  \
        return blas::do_symm(h, {side, fill}, is_hermitian, m, n, blas::in(alpha), blas::in(a), lda, blas::in(b), ldb, \
                             blas::in(beta), blas::in(c), ldc);                                                        \
    }
#define BLAS_SYRK(name, is_hermitian, T, F, w, I)                                                                      \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, I n, I k,       \
                                        const F *alpha, const T *a, I lda, const F *beta, T *c, I ldc)                 \
    {                                                                                                                  \
        return blas::do_syrk(h, {fill, op, n, k, lda, lda, ldc, is_hermitian}, false, blas::in(alpha), blas::in(a),    \
                             blas::in(a), blas::in(beta), blas::in(c));                                                \
    }
#define BLAS_SYR2K(name, is_double, is_hermitian, T, G, w, I)                                                          \
    cublasStatus_t cublas##name##w(cublasHandle_t h, cublasFillMode_t fill, cublasOperation_t op, I n, I k,            \
                                   const T *alpha, const T *a, I lda, const T *b, I ldb, const G *beta, T *c, I ldc)   \
    {                                                                                                                  \
        return blas::do_syrk(h, {fill, op, n, k, lda, ldb, ldc, is_hermitian}, is_double, blas::in(alpha),             \
                             blas::in(a), blas::in(b), blas::in(beta), blas::in(c));                                   \
    }
#define BLAS_TRMM(name, T, w, I)                                                                                       \
    cublasStatus_t cublas##name##_v2##w(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,                \
                                        cublasOperation_t op, cublasDiagType_t diagonal, I m, I n, const T *alpha,     \
                                        const T *a, I lda, const T *b, I ldb, T *c, I ldc)                             \
    {                                                                                                                  \
        return blas::do_trmm(h, side, {fill, op, diagonal}, m, n, blas::in(alpha), blas::in(a), lda, blas::in(b), ldb, \
                             blas::in(c), ldc);                                                                        \
    }
#define BLAS_PRODUCTS(S, T)                                                                                            \
    BLAS_BOTH_SIZES(BLAS_SYMM, S##symm, false, T)                                                                      \
    BLAS_BOTH_SIZES(BLAS_SYRK, S##syrk, false, T, T)                                                                   \
    BLAS_BOTH_SIZES(BLAS_SYR2K, S##syr2k_v2, true, false, T, T)                                                        \
    BLAS_BOTH_SIZES(BLAS_SYR2K, S##syrkx, false, false, T, T)                                                          \
    BLAS_BOTH_SIZES(BLAS_TRMM, S##trmm, T)
#define BLAS_HERMITIAN_PRODUCTS(S, T, R)                                                                               \
    BLAS_BOTH_SIZES(BLAS_SYMM, S##hemm, true, T)                                                                       \
    BLAS_BOTH_SIZES(BLAS_SYRK, S##herk, true, T, R)                                                                    \
    BLAS_BOTH_SIZES(BLAS_SYR2K, S##her2k_v2, true, true, T, R)                                                         \
    BLAS_BOTH_SIZES(BLAS_SYR2K, S##herkx, false, true, T, R)
