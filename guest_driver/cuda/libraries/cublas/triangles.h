/* Triangles of equations with many right-hand sides. */
#pragma once
#include "matrices.h"

namespace blas
{

/* M x = alpha b for each of `sides` right-hand sides, a thread each: element i of side r lies i * step + r * side
 * behind b, element (i, p) of the triangle M i * row + p * column behind m; for each of a batch. */
template <class T>
__global__ void solve(i64 n, i64 sides, i64 count, bool is_lower, bool is_unit, bool conjugates, scalar<T> alpha,
                      batch<const T> matrix, i64 row, i64 column, batch<T> b, i64 step, i64 side)
{
    const T times = alpha.get();
    const bool is_zero = times == zero<T>();
    for (i64 z = blockIdx.y; z < count; z += gridDim.y) {
        const T *m = matrix[z];
        BLAS_EACH_LINE(r, sides)
        {
            T *x = b[z] + r * side;
            for (i64 done = 0; done < n; done++) {
                const i64 i = is_lower ? done : n - 1 - done;
                T rest = is_zero ? zero<T>() : times * x[i * step];
                for (i64 q = 0; q < done; q++) {
                    const i64 p = is_lower ? q : n - 1 - q;
                    rest = rest - conjugate_if(conjugates, m[i * row + p * column]) * x[p * step];
                }
                x[i * step] = is_unit ? rest : rest / conjugate_if(conjugates, m[i * row + i * column]);
            }
        }
    }
}

constexpr i64 STRIP = 64; /* unknowns that are solved for at once, if there are many */

/* M X = alpha B for a triangle M: element (i, p) lies i * row + p * column behind `m`, element i of side r of B
 * i * step + r * side behind `b`. */
struct equations {
    i64 n, sides;
    bool is_lower, is_unit, conjugates;
    i64 row, column, step, side;
};
template <class T>
static void launch_solve(cudaStream_t stream, const equations &all, i64 first, i64 n, i64 count, scalar<T> alpha,
                         batch<const T> m, batch<T> b)
{
    const dim3 grid(line_blocks(all.sides), (unsigned)least(count, 65535));
    if (first)
        m.first += first * (all.row + all.column);
    if (first)
        b.first += first * all.step;
    solve<T><<<grid, LINE, 0, stream>>>(n, all.sides, count, all.is_lower, all.is_unit, all.conjugates, alpha, m,
                                        all.row, all.column, b, all.step, all.side);
}

/* Strip by strip: what is known is taken out of all that follows by a product. */
template <class T>
static cublasStatus_t solve_strips(cudaStream_t stream, const equations &all, scalar<T> alpha, const T *m, T *b)
{
    const scalar<T> minus{-one<T>(), nullptr};
    scalar<T> factor = alpha;
    for (i64 done = 0; done < all.n; done += STRIP) {
        const i64 n = least(STRIP, all.n - done), left = all.n - done - n;
        const i64 first = all.is_lower ? done : left, rest = all.is_lower ? done + n : 0;
        launch_solve(stream, all, first, n, 1, factor, {m, nullptr, 0}, {b, nullptr, 0});
        if (left == 0)
            break;
        const operand<T> part{
            {m + rest * all.row + first * all.column, nullptr, 0}, all.row, all.column, all.conjugates};
        const operand<T> known{{b + first * all.step, nullptr, 0}, all.step, all.side, false};
        const operand<T> turned_part{part.matrix, part.column, part.row, part.conjugates};
        const operand<T> turned_known{known.matrix, known.column, known.row, false};
        const target<T, T, T> to{
            minus, factor, {b + rest * all.step, nullptr, 0}, all.step == 1 ? all.side : all.step, ALL};
        const cublasStatus_t status =
            all.step == 1 ? gemm<T, T, T, T>(stream, left, all.sides, n, part, known, to, 1)
                          : gemm<T, T, T, T>(stream, all.sides, left, n, turned_known, turned_part, to, 1);
        if (status)
            return status;
        factor = {one<T>(), nullptr};
    }
    return launched();
}

/* op(A) X = alpha B, or X op(A) = alpha B, which is the same of the transposed matrix. */
template <class T>
static cublasStatus_t do_trsm(cublasHandle_t handle, cublasSideMode_t side, triangle form, i64 m, i64 n, const T *alpha,
                              batch<const T> a, i64 lda, batch<T> b, i64 ldb, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    const bool is_left = side == CUBLAS_SIDE_LEFT;
    BLAS_CHECK((is_left || side == CUBLAS_SIDE_RIGHT) && form.is_right() && m >= 0 && n >= 0 && alpha &&
               lda >= at_least_one(is_left ? m : n) && ldb >= at_least_one(m) && count >= 0);
    if (m == 0 || n == 0 || count == 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool turned = is_turned(form.op) == is_left;
    const bool is_lower = (form.fill == CUBLAS_FILL_MODE_LOWER) != turned;
    const bool conjugates = form.op == CUBLAS_OP_C || form.op == CUBLAS_OP_CONJG;
    const equations all{is_left ? m : n,  is_left ? n : m,  is_lower,         form.diagonal == CUBLAS_DIAG_UNIT,
                        conjugates,       turned ? lda : 1, turned ? 1 : lda, is_left ? 1 : ldb,
                        is_left ? ldb : 1};
    const scalar<T> times = scalar_of(handle, alpha);
    if (count == 1 && !a.table && is(times, zero<T>())) /* A is not read */
        return status_of(
            cudaMemset2DAsync(b.first, (size_t)ldb * sizeof(T), 0, (size_t)m * sizeof(T), (size_t)n, handle->stream));
    if (count == 1 && !a.table && all.n > 2 * STRIP && all.sides >= 8)
        return solve_strips(handle->stream, all, times, a.first, b.first);
    launch_solve(handle->stream, all, 0, all.n, count, times, a, b);
    return launched();
}

} // namespace blas

/* The API's functions for one type of numbers and both widths of integers. */
#define BLAS_TRIANGLES(S, T, w, I)                                                                                     \
    cublasStatus_t cublas##S##trsm_v2##w(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,               \
                                         cublasOperation_t op, cublasDiagType_t diagonal, I m, I n, const T *alpha,    \
                                         const T *a, I lda, T *b, I ldb)                                               \
    {                                                                                                                  \
        return blas::do_trsm(h, side, {fill, op, diagonal}, m, n, blas::in(alpha), blas::one_of(a), lda,               \
                             blas::one_of(b), ldb, 1);                                                                 \
    }                                                                                                                  \
    cublasStatus_t cublas##S##trsmBatched##w(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,           \
                                             cublasOperation_t op, cublasDiagType_t diagonal, I m, I n,                \
                                             const T *alpha, const T *const a[], I lda, T *const b[], I ldb, I count)  \
    {                                                                                                                  \
        return blas::do_trsm(h, side, {fill, op, diagonal}, m, n, blas::in(alpha), blas::table_of(a), lda,             \
                             blas::table_of(b), ldb, count);                                                           \
    }
