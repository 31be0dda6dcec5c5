/* The API's functions for eigenvalues, for one type of numbers: plain and generalised problems, and parts of them. */
#pragma once
#include "eigen.h"

namespace solver
{
/* Which eigenvalues are asked for, counted from 1. */
template <class R> struct chosen {
    cusolverEigRange_t range;
    R low, high;
    i64 first, last;
    bool are_right(i64 n) const
    {
        return range == CUSOLVER_EIG_RANGE_ALL || (range == CUSOLVER_EIG_RANGE_V && low < high) ||
               (range == CUSOLVER_EIG_RANGE_I && (n == 0 || (first >= 1 && first <= last && last <= n)));
    }
};
/* Moves the chosen eigenvalues and vectors to the front; `found` is the host's. */
template <class T>
static status choose(handle h, bool vectors, chosen<real_of<T>> which, i64 n, T *a, i64 lda, real_of<T> *values,
                     T *work, int *found)
{
    typedef real_of<T> R;
    i64 first = which.first, last = which.last;
    if (which.range == CUSOLVER_EIG_RANGE_ALL || n == 0) {
        *found = (int)n;
        return CUSOLVER_STATUS_SUCCESS;
    }
    R *const all = new R[n];
    cudaError_t error = cudaMemcpyAsync(all, values, n * sizeof(R), cudaMemcpyDeviceToHost, h->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(h->stream);
    if (which.range == CUSOLVER_EIG_RANGE_V) {
        for (first = 1; first <= n && !(all[first - 1] > which.low);)
            first++;
        for (last = first - 1; last < n && all[last] <= which.high;)
            last++;
    }
    const i64 count = last - first + 1;
    if (error == cudaSuccess && count > 0 && first > 1)
        error = cudaMemcpyAsync(values, all + first - 1, count * sizeof(R), cudaMemcpyHostToDevice, h->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(h->stream);
    delete[] all;
    *found = (int)count;
    if (error != cudaSuccess || !vectors || first == 1 || count == 0)
        return status_of(error);
    SOLVER_TRY(copy_matrix<T>(h, CUBLAS_OP_N, WHOLE, n, count, a + (first - 1) * lda, lda, work, n));
    return copy_matrix<T>(h, CUBLAS_OP_N, WHOLE, n, count, work, n, a, lda);
}

/* B = op(A) B for a triangle of A; `work` has 2 n^2 elements. */
template <class T>
static status multiply_triangle(handle h, triangle form, i64 n, const T *a, i64 lda, T *b, i64 ldb, T *work)
{
    T *const whole = work, *const copy = work + n * n;
    SOLVER_TRY(status_of(cudaMemsetAsync(whole, 0, n * n * sizeof(T), h->stream)));
    SOLVER_TRY(copy_matrix(h, CUBLAS_OP_N, form.fill == CUBLAS_FILL_MODE_LOWER ? LOWER_PART : UPPER_PART, n, n, a, lda,
                           whole, n));
    SOLVER_TRY(copy_matrix<T>(h, CUBLAS_OP_N, WHOLE, n, n, b, ldb, copy, n));
    return gemm(h, form.op, CUBLAS_OP_N, n, n, n, one<T>(), whole, n, copy, n, zero<T>(), b, ldb);
}

/* Info of a generalised problem: the failure of the decomposition of B comes before that of the eigenvalues. */
static __global__ void join_infos(int n, const int *decomposition, int *info)
{
    if (*decomposition)
        *info = n + *decomposition;
}
template <class T> i64 sygv_workspace(bool vectors, i64 n)
{
    return most(eigen_workspace<T>(vectors, n), 2 * n * n + 64) + 64;
}
/* A x = l B x, A B x = l x or B A x = l x. B becomes its decomposition. */
template <class T>
static status sygv(handle h, cusolverEigType_t type, bool vectors, cublasFillMode_t fill, i64 n, T *a, i64 lda, T *b,
                   i64 ldb, real_of<T> *values, T *work, int *info)
{
    if (n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    const bool is_lower = fill == CUBLAS_FILL_MODE_LOWER;
    const cublasOperation_t by_l = is_lower ? CUBLAS_OP_N : CUBLAS_OP_C, by_lh = is_lower ? CUBLAS_OP_C : CUBLAS_OP_N;
    int *const failed = (int *)(((uintptr_t)work + 15) / 16 * 16);
    T *const space = (T *)((char *)failed + 16);
    SOLVER_TRY(cholesky(h, fill, n, b, ldb, failed));
    SOLVER_TRY(fill_hermitian(h, fill, n, a, lda));
    for (int side = 0; side < 2; side++) { /* the same from both sides of a Hermitian matrix */
        if (type == CUSOLVER_EIG_TYPE_1)
            SOLVER_TRY(solve_triangle<T>(h, {fill, by_l, false}, n, n, b, ldb, a, lda));
        else
            SOLVER_TRY(multiply_triangle<T>(h, {fill, by_lh, false}, n, b, ldb, a, lda, space));
        SOLVER_TRY(copy_matrix<T>(h, CUBLAS_OP_C, WHOLE, n, n, a, lda, space, n));
        SOLVER_TRY(copy_matrix<T>(h, CUBLAS_OP_N, WHOLE, n, n, space, n, a, lda));
    }
    SOLVER_TRY(eigen(h, vectors, fill, n, a, lda, values, space, info));
    if (vectors && type == CUSOLVER_EIG_TYPE_3)
        SOLVER_TRY(multiply_triangle<T>(h, {fill, by_l, false}, n, b, ldb, a, lda, space));
    else if (vectors)
        SOLVER_TRY(solve_triangle<T>(h, {fill, by_lh, false}, n, n, b, ldb, a, lda));
    join_infos<<<1, 1, 0, h->stream>>>((int)n, failed, info);
    return launched();
}
static inline bool is_type(cusolverEigType_t type)
{
    return type >= CUSOLVER_EIG_TYPE_1 && type <= CUSOLVER_EIG_TYPE_3;
}
} // namespace solver

/* sy: the name's middle, sy or he. */
#define SOLVER_EIGEN(S, sy, T, R)                                                                                      \
    using namespace solver;                                                                                            \
    template i64 solver::eigen_workspace<inside<T>::type>(bool, i64);                                                  \
    template status solver::eigen<inside<T>::type>(handle, bool, cublasFillMode_t, i64, inside<T>::type *, i64, R *,   \
                                                   inside<T>::type *, int *);                                          \
    status cusolverDn##S##sy##evd_bufferSize(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n,           \
                                             const T *, int lda, const R *, int *size)                                 \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && size);                   \
        *size = (int)eigen_workspace<inside<T>::type>(mode, n);                                                        \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##evd(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T *a, int lda, R *w, \
                                  T *work, int size, int *info)                                                        \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && info && work &&          \
                     size >= eigen_workspace<inside<T>::type>(mode, n));                                               \
        return eigen(h, mode, fill, n, in(a), lda, w, in(work), info);                                                 \
    }                                                                                                                  \
    status cusolverDn##S##sy##evdx_bufferSize(handle h, cusolverEigMode_t mode, cusolverEigRange_t range,              \
                                              cublasFillMode_t fill, int n, const T *, int lda, R low, R high,         \
                                              int first, int last, int *found, const R *, int *size)                   \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && found && size &&         \
                     (chosen<R>{range, low, high, first, last}).are_right(n));                                         \
        *size = (int)eigen_workspace<inside<T>::type>(mode, n);                                                        \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##evdx(handle h, cusolverEigMode_t mode, cusolverEigRange_t range, cublasFillMode_t fill,  \
                                   int n, T *a, int lda, R low, R high, int first, int last, int *found, R *w,         \
                                   T *work, int size, int *info)                                                       \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const chosen<R> which{range, low, high, first, last};                                                          \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && found && info && work && \
                     size >= eigen_workspace<inside<T>::type>(mode, n) && which.are_right(n));                         \
        SOLVER_TRY(eigen(h, mode, fill, n, in(a), lda, w, in(work), info));                                            \
        return choose(h, mode, which, n, in(a), lda, w, in(work), found);                                              \
    }                                                                                                                  \
    status cusolverDn##S##sy##gvd_bufferSize(handle h, cusolverEigType_t type, cusolverEigMode_t mode,                 \
                                             cublasFillMode_t fill, int n, const T *, int lda, const T *, int ldb,     \
                                             const R *, int *size)                                                     \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_type(type) && is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) &&         \
                     is_leading(ldb, n) && size);                                                                      \
        *size = (int)sygv_workspace<inside<T>::type>(mode, n);                                                         \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##gvd(handle h, cusolverEigType_t type, cusolverEigMode_t mode, cublasFillMode_t fill,     \
                                  int n, T *a, int lda, T *b, int ldb, R *w, T *work, int size, int *info)             \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_type(type) && is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) &&         \
                     is_leading(ldb, n) && work && info && size >= sygv_workspace<inside<T>::type>(mode, n));          \
        return sygv(h, type, mode, fill, n, in(a), lda, in(b), ldb, w, in(work), info);                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##gvdx_bufferSize(handle h, cusolverEigType_t type, cusolverEigMode_t mode,                \
                                              cusolverEigRange_t range, cublasFillMode_t fill, int n, const T *,       \
                                              int lda, const T *, int ldb, R low, R high, int first, int last,         \
                                              int *found, const R *, int *size)                                        \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_type(type) && is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) &&         \
                     is_leading(ldb, n) && found && size && (chosen<R>{range, low, high, first, last}).are_right(n));  \
        *size = (int)sygv_workspace<inside<T>::type>(mode, n);                                                         \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##gvdx(handle h, cusolverEigType_t type, cusolverEigMode_t mode, cusolverEigRange_t range, \
                                   cublasFillMode_t fill, int n, T *a, int lda, T *b, int ldb, R low, R high,          \
                                   int first, int last, int *found, R *w, T *work, int size, int *info)                \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const chosen<R> which{range, low, high, first, last};                                                          \
        SOLVER_CHECK(is_type(type) && is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) &&         \
                     is_leading(ldb, n) && found && work && info && which.are_right(n) &&                              \
                     size >= sygv_workspace<inside<T>::type>(mode, n));                                                \
        SOLVER_TRY(sygv(h, type, mode, fill, n, in(a), lda, in(b), ldb, w, in(work), info));                           \
        return choose(h, mode, which, n, in(a), lda, w, in(work), found);                                              \
    }
