/* The API's functions for singular values, for one type of numbers. */
#pragma once
#include "jacobi_info.h"
#include "svd.h"

namespace solver
{
/* Arguments of gesvdj: min(m, n) columns of both, or all. */
struct gesvdj_sizes {
    cusolverEigMode_t mode;
    i64 economical, m, n, lda, ldu, ldv;
    bool are_right() const
    {
        return is_vector_mode(mode) && (economical == 0 || economical == 1) && m >= 0 && n >= 0 && is_leading(lda, m) &&
               (mode == CUSOLVER_EIG_MODE_NOVECTOR || (is_leading(ldu, m) && is_leading(ldv, n)));
    }
    i64 left() const
    {
        return mode == CUSOLVER_EIG_MODE_NOVECTOR ? 0 : economical ? least(m, n) : m;
    }
    i64 right() const
    {
        return mode == CUSOLVER_EIG_MODE_NOVECTOR ? 0 : economical ? least(m, n) : n;
    }
};
template <class T> static i64 svd_batch_workspace(i64 m, i64 n, i64 count)
{
    workspace memory{nullptr, 0};
    for (i64 z = 0; z < count; z++)
        svd_of<T>(memory, m, n);
    return memory.elements<T>();
}
template <class T>
static status gesvdj(handle h, gesvdj_sizes size, T *a, real_of<T> *values, T *u, T *v, T *work, int *info,
                     gesvdjInfo *parameters)
{
    if (size.m == 0 || size.n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    workspace memory = workspace_of(work);
    const svd<T> s = svd_of<T>(memory, size.m, size.n);
    SOLVER_TRY(svd_run<T>(h, s, size.m < size.n, {a, nullptr, 0}, size.lda, s.n, values, 0,
                          {{u, nullptr, 0}, size.left(), 1, size.ldu, false},
                          {{v, nullptr, 0}, size.right(), 1, size.ldv, false}, info, 1,
                          {parameters->tolerance, parameters->max_sweeps}));
    svd_state state;
    real_of<T> scale;
    SOLVER_TRY(status_of(cudaMemcpyAsync(&state, s.state, sizeof state, cudaMemcpyDeviceToHost, h->stream)));
    SOLVER_TRY(status_of(cudaMemcpyAsync(&scale, s.scale, sizeof scale, cudaMemcpyDeviceToHost, h->stream)));
    SOLVER_TRY(status_of(cudaStreamSynchronize(h->stream)));
    parameters->residual = root(state.residual) * (double)scale;
    parameters->sweeps = state.sweeps;
    return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
static status gesvdj_batch(handle h, gesvdj_sizes size, T *a, real_of<T> *values, T *u, T *v, T *work, int *infos,
                           const gesvdjInfo *parameters, int count)
{
    if (size.m == 0 || size.n == 0 || count == 0)
        return CUSOLVER_STATUS_SUCCESS;
    workspace memory = workspace_of(work);
    const svd<T> s = svd_of<T>(memory, size.m, size.n);
    return svd_run<T>(h, s, size.m < size.n, {a, nullptr, size.lda * size.n}, size.lda, s.n, values, s.n,
                      {{u, nullptr, size.ldu * size.m}, size.left(), 1, size.ldu, false},
                      {{v, nullptr, size.ldv * size.n}, size.right(), 1, size.ldv, false}, infos, count,
                      {parameters->tolerance, parameters->max_sweeps});
}

/* The squared length of A - U S V^H, of each matrix of a batch. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    measure_rest(i64 m, i64 n, i64 rank, batch<const T> a, i64 lda, const real_of<T> *values, i64 jump, batch<T> u,
                 i64 ldu, batch<T> v, i64 ldv, double *rests)
{
    __shared__ double sums[THREADS];
    const T *const from = a[blockIdx.x], *const left = u[blockIdx.x], *const right = v[blockIdx.x];
    const real_of<T> *const s = values + blockIdx.x * jump;
    double sum = 0;
    for (i64 j = 0; j < n; j++)
        for (i64 i = threadIdx.x; i < m; i += THREADS) {
            T rest = from[i + j * lda];
            for (i64 k = 0; k < rank; k++)
                rest = rest - left[i + k * ldu] * (s[k] * conjugate(right[j + k * ldv]));
            sum += square(rest);
        }
    sum = sum_of_threads(sum, sums);
    if (threadIdx.x == 0)
        rests[blockIdx.x] = sum;
}
struct gesvda_sizes {
    cusolverEigMode_t mode;
    i64 rank, m, n, lda, jump_a, jump_s, ldu, jump_u, ldv, jump_v, count;
    bool are_right() const
    {
        return is_vector_mode(mode) && m >= 0 && n >= 0 && rank >= 0 && rank <= least(m, n) && is_leading(lda, m) &&
               count >= 0 && (mode == CUSOLVER_EIG_MODE_NOVECTOR || (is_leading(ldu, m) && is_leading(ldv, n)));
    }
};
template <class T> static i64 gesvda_workspace(gesvda_sizes size)
{
    return svd_batch_workspace<T>(size.m, size.n, size.count) + (size.count * 8 + 16) / (i64)sizeof(T) + 1;
}
template <class T>
static status gesvda(handle h, gesvda_sizes size, const T *a, real_of<T> *values, T *u, T *v, T *work, int *infos,
                     double *rests)
{
    if (size.m == 0 || size.n == 0 || size.count == 0)
        return CUSOLVER_STATUS_SUCCESS;
    workspace memory = workspace_of(work);
    double *const squares = memory.take<double>(size.count);
    const svd<T> s = svd_of<T>(memory, size.m, size.n);
    const batch<const T> from{a, nullptr, size.jump_a};
    const batch<T> left{u, nullptr, size.jump_u}, right{v, nullptr, size.jump_v};
    const bool wants = size.mode == CUSOLVER_EIG_MODE_VECTOR;
    SOLVER_TRY(svd_run<T>(h, s, size.m < size.n, from, size.lda, size.rank, values, size.jump_s,
                          {left, wants ? size.rank : 0, 1, size.ldu, false},
                          {right, wants ? size.rank : 0, 1, size.ldv, false}, infos, (int)size.count, {NEVER, SWEEPS}));
    if (!wants || !rests)
        return CUSOLVER_STATUS_SUCCESS;
    measure_rest<T><<<(unsigned)size.count, THREADS, 0, h->stream>>>(
        size.m, size.n, size.rank, from, size.lda, values, size.jump_s, left, size.ldu, right, size.ldv, squares);
    SOLVER_TRY(launched());
    SOLVER_TRY(
        status_of(cudaMemcpyAsync(rests, squares, size.count * sizeof *rests, cudaMemcpyDeviceToHost, h->stream)));
    SOLVER_TRY(status_of(cudaStreamSynchronize(h->stream)));
    for (i64 z = 0; z < size.count; z++)
        rests[z] = root(rests[z]);
    return CUSOLVER_STATUS_SUCCESS;
}
} // namespace solver

#define SOLVER_SVD(S, T, R)                                                                                            \
    using namespace solver;                                                                                            \
    template i64 solver::gesvd_workspace<inside<T>::type>(i64, i64);                                                   \
    template status solver::gesvd<inside<T>::type>(handle, char, char, i64, i64, inside<T>::type *, i64, R *,          \
                                                   inside<T>::type *, i64, inside<T>::type *, i64, inside<T>::type *,  \
                                                   int *);                                                             \
    status cusolverDn##S##gesvd_bufferSize(handle h, int m, int n, int *size)                                          \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(n >= 0 && m >= n && size);                                                                        \
        *size = (int)gesvd_workspace<inside<T>::type>(m, n);                                                           \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##gesvd(handle h, signed char jobu, signed char jobvt, int m, int n, T *a, int lda, R *s,      \
                                T *u, int ldu, T *vt, int ldvt, T *work, int size, R *, int *info)                     \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_gesvd(jobu, jobvt, m, n, lda, ldu, ldvt) && info && work &&                                    \
                     size >= gesvd_workspace<inside<T>::type>(m, n));                                                  \
        return gesvd(h, jobu, jobvt, m, n, in(a), lda, s, in(u), ldu, in(vt), ldvt, in(work), info);                   \
    }                                                                                                                  \
    status cusolverDn##S##gesvdj_bufferSize(handle h, cusolverEigMode_t mode, int econ, int m, int n, const T *,       \
                                            int lda, const R *, const T *, int ldu, const T *, int ldv, int *size,     \
                                            gesvdjInfo_t parameters)                                                   \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK((gesvdj_sizes{mode, econ, m, n, lda, ldu, ldv}).are_right() && size && parameters);               \
        *size = (int)svd_batch_workspace<inside<T>::type>(m, n, 1);                                                    \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##gesvdj(handle h, cusolverEigMode_t mode, int econ, int m, int n, T *a, int lda, R *s, T *u,  \
                                 int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t parameters)        \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const gesvdj_sizes sizes{mode, econ, m, n, lda, ldu, ldv};                                                     \
        SOLVER_CHECK(sizes.are_right() && work && info && parameters &&                                                \
                     size >= svd_batch_workspace<inside<T>::type>(m, n, 1));                                           \
        return gesvdj(h, sizes, in(a), s, in(u), in(v), in(work), info, parameters);                                   \
    }                                                                                                                  \
    status cusolverDn##S##gesvdjBatched_bufferSize(handle h, cusolverEigMode_t mode, int m, int n, const T *, int lda, \
                                                   const R *, const T *, int ldu, const T *, int ldv, int *size,       \
                                                   gesvdjInfo_t parameters, int count)                                 \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK((gesvdj_sizes{mode, 0, m, n, lda, ldu, ldv}).are_right() && m <= 32 && n <= 32 && size &&         \
                     parameters && count >= 0);                                                                        \
        *size = (int)svd_batch_workspace<inside<T>::type>(m, n, count);                                                \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##gesvdjBatched(handle h, cusolverEigMode_t mode, int m, int n, T *a, int lda, R *s, T *u,     \
                                        int ldu, T *v, int ldv, T *work, int size, int *info, gesvdjInfo_t parameters, \
                                        int count)                                                                     \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const gesvdj_sizes sizes{mode, 0, m, n, lda, ldu, ldv};                                                        \
        SOLVER_CHECK(sizes.are_right() && m <= 32 && n <= 32 && work && info && parameters && count >= 0 &&            \
                     size >= svd_batch_workspace<inside<T>::type>(m, n, count));                                       \
        return gesvdj_batch(h, sizes, in(a), s, in(u), in(v), in(work), info, parameters, count);                      \
    }                                                                                                                  \
    status cusolverDn##S##gesvdaStridedBatched_bufferSize(handle h, cusolverEigMode_t mode, int rank, int m, int n,    \
                                                          const T *, int lda, long long jump_a, const R *,             \
                                                          long long jump_s, const T *, int ldu, long long jump_u,      \
                                                          const T *, int ldv, long long jump_v, int *size, int count)  \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const gesvda_sizes sizes{mode, rank, m, n, lda, jump_a, jump_s, ldu, jump_u, ldv, jump_v, count};              \
        SOLVER_CHECK(sizes.are_right() && size);                                                                       \
        *size = (int)gesvda_workspace<inside<T>::type>(sizes);                                                         \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##gesvdaStridedBatched(handle h, cusolverEigMode_t mode, int rank, int m, int n, const T *a,   \
                                               int lda, long long jump_a, R *s, long long jump_s, T *u, int ldu,       \
                                               long long jump_u, T *v, int ldv, long long jump_v, T *work, int size,   \
                                               int *info, double *rests, int count)                                    \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        const gesvda_sizes sizes{mode, rank, m, n, lda, jump_a, jump_s, ldu, jump_u, ldv, jump_v, count};              \
        SOLVER_CHECK(sizes.are_right() && work && info && size >= gesvda_workspace<inside<T>::type>(sizes));           \
        return gesvda(h, sizes, in(a), s, in(u), in(v), in(work), info, rests);                                        \
    }
