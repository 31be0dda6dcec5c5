/* Eigenvalues of Hermitian matrices by Jacobi rotations from both sides. The pairs of a step share no row or column:
 * their rotations are found first, then turn the columns, and then the rows. */
#pragma once
#include "families.h"
#include "jacobi_info.h"
#include "sums.h"

namespace solver
{
constexpr i64 ONE_BLOCK_ORDER = 64; /* up to which one block does all steps */

struct jacobi_state {
    double rest; /* squared: elements off the diagonal */
    int sweeps, converged;
};
/* A rotation of columns p and q, or of none if p is negative. */
template <class T> struct rotation {
    int p, q;
    real_of<T> c, s;
    T phase;
};
/* Memory of a decomposition; that of matrix z lies `stride` bytes behind the one before. */
template <class T> struct jacobi {
    i64 n;
    T *w, *v;
    rotation<T> *rotations;
    real_of<T> *scale;
    int *order;
    jacobi_state *state;
    size_t stride;
    template <class Any> static __device__ Any *moved(Any *at, size_t bytes)
    {
        return (Any *)((char *)at + bytes);
    }
    __device__ jacobi at(size_t z) const
    {
        const size_t by = z * stride;
        return {n,
                moved(w, by),
                moved(v, by),
                moved(rotations, by),
                moved(scale, by),
                moved(order, by),
                moved(state, by),
                stride};
    }
};
template <class T> static jacobi<T> jacobi_of(workspace &memory, i64 n)
{
    jacobi<T> made;
    const size_t begin = memory.used;
    made.n = n;
    made.w = memory.take<T>(n * n);
    made.v = memory.take<T>(n * n);
    made.rotations = memory.take<rotation<T>>((n + 1) / 2);
    made.scale = memory.take<real_of<T>>(1);
    made.order = memory.take<int>(n);
    made.state = memory.take<jacobi_state>(1);
    made.stride = memory.used - begin;
    return made;
}

/* W = A with elements of at most 1, V = 1. */
template <class T>
__global__ void __launch_bounds__(THREADS) jacobi_load(jacobi<T> all, bool is_lower, batch<const T> a, i64 lda)
{
    typedef real_of<T> R;
    __shared__ R sizes[THREADS];
    const jacobi<T> j = all.at(blockIdx.x);
    const T *const from = a[blockIdx.x];
    R size = 0;
    for (i64 e = threadIdx.x; e < j.n * j.n; e += THREADS) {
        const i64 row = e % j.n, column = e / j.n;
        const bool is_there = is_lower ? row >= column : row <= column;
        T value = is_there ? from[row + column * lda] : conjugate(from[column + row * lda]);
        value = row == column ? real_part(value) : value;
        j.w[e] = value;
        j.v[e] = row == column ? one<T>() : zero<T>();
        size = magnitude(value) > size ? magnitude(value) : size;
    }
    size = greatest_of_threads(size, sizes);
    for (i64 e = threadIdx.x; e < j.n * j.n && size > 0; e += THREADS)
        j.w[e] = (1 / size) * j.w[e];
    if (threadIdx.x == 0) {
        *j.scale = size;
        *j.state = {0, 0, 0};
    }
}
template <class T> __device__ void find_rotations(const jacobi<T> &j, i64 step, i64 begin, i64 jump)
{
    typedef real_of<T> R;
    const i64 players = (j.n + 1) / 2 * 2;
    for (i64 pair = begin; pair < players / 2; pair += jump) {
        const i64 place = pair, other = players - 1 - pair;
        const i64 one_place = place == 0 ? 0 : 1 + (place - 1 + step) % (players - 1);
        const i64 other_place = 1 + (other - 1 + step) % (players - 1);
        const i64 p = one_place < other_place ? one_place : other_place, q = one_place + other_place - p;
        rotation<T> made{-1, (int)q, 1, 0, one<T>()};
        const T gamma = q < j.n ? j.w[p + q * j.n] : zero<T>();
        const R size = absolute(gamma);
        if (size > 0) {
            const R half = (re(j.w[q * (j.n + 1)]) - re(j.w[p * (j.n + 1)])) / (2 * size);
            const R t = (half < 0 ? R(-1) : R(1)) / (absolute(half) + longer(R(1), half));
            const R c = 1 / longer(R(1), t);
            made = {(int)p, (int)q, c, c * t, (1 / size) * conjugate(gamma)};
        }
        j.rotations[pair] = made;
    }
}
template <class T> __device__ void rotate_columns(const jacobi<T> &j, i64 begin, i64 jump)
{
    const i64 pairs = (j.n + 1) / 2;
    for (i64 e = begin; e < pairs * j.n; e += jump) {
        const rotation<T> by = j.rotations[e / j.n];
        if (by.p < 0)
            continue;
        const i64 i = e % j.n, first = i + by.p * j.n, second = i + by.q * j.n;
        const T w = j.w[first], other_w = by.phase * j.w[second];
        j.w[first] = by.c * w - by.s * other_w;
        j.w[second] = by.s * w + by.c * other_w;
        const T v = j.v[first], other_v = by.phase * j.v[second];
        j.v[first] = by.c * v - by.s * other_v;
        j.v[second] = by.s * v + by.c * other_v;
    }
}
template <class T> __device__ void rotate_rows(const jacobi<T> &j, i64 begin, i64 jump)
{
    const i64 pairs = (j.n + 1) / 2;
    for (i64 e = begin; e < pairs * j.n; e += jump) {
        const rotation<T> by = j.rotations[e % pairs];
        if (by.p < 0)
            continue;
        const i64 column = e / pairs, first = by.p + column * j.n, second = by.q + column * j.n;
        const T w = j.w[first], other = conjugate(by.phase) * j.w[second];
        const T made = by.c * w - by.s * other, other_made = by.s * w + by.c * other;
        j.w[first] = column == by.q ? zero<T>() : column == by.p ? real_part(made) : made;
        j.w[second] = column == by.p ? zero<T>() : column == by.q ? real_part(other_made) : other_made;
    }
}
/* Whether what lies off the diagonal is small beside the whole. */
template <class T> __device__ bool is_diagonal(const jacobi<T> &j, real_of<T> tolerance, real_of<T> *sums, double *rest)
{
    typedef real_of<T> R;
    R off = 0, on = 0;
    for (i64 e = threadIdx.x; e < j.n * j.n; e += THREADS)
        (e % (j.n + 1) == 0 ? on : off) += square(j.w[e]);
    off = sum_of_threads(off, sums);
    on = sum_of_threads(on, sums);
    *rest = off;
    return off <= tolerance * tolerance * (on + off);
}
template <class T> __global__ void __launch_bounds__(THREADS) jacobi_find(jacobi<T> j, i64 step)
{
    find_rotations(j, step, (i64)blockIdx.x * THREADS + threadIdx.x, (i64)gridDim.x * THREADS);
}
template <class T> __global__ void __launch_bounds__(THREADS) jacobi_columns(jacobi<T> j)
{
    rotate_columns(j, (i64)blockIdx.x * THREADS + threadIdx.x, (i64)gridDim.x * THREADS);
}
template <class T> __global__ void __launch_bounds__(THREADS) jacobi_rows(jacobi<T> j)
{
    rotate_rows(j, (i64)blockIdx.x * THREADS + threadIdx.x, (i64)gridDim.x * THREADS);
}
template <class T>
__global__ void __launch_bounds__(THREADS) jacobi_measure(jacobi<T> j, int sweep, real_of<T> tolerance)
{
    __shared__ real_of<T> sums[THREADS];
    double rest;
    const bool converged = is_diagonal(j, tolerance, sums, &rest);
    if (threadIdx.x == 0)
        *j.state = {rest, sweep, converged};
}
template <class T>
__global__ void __launch_bounds__(THREADS) jacobi_all(jacobi<T> all, int sweeps, real_of<T> tolerance)
{
    __shared__ real_of<T> sums[THREADS];
    const jacobi<T> j = all.at(blockIdx.x);
    const i64 players = (j.n + 1) / 2 * 2;
    double rest;
    bool converged = is_diagonal(j, tolerance, sums, &rest);
    int sweep = 0;
    for (; sweep < sweeps && !converged; sweep++) {
        for (i64 step = 0; step < players - 1; step++) {
            __syncthreads();
            find_rotations(j, step, threadIdx.x, THREADS);
            __syncthreads();
            rotate_columns(j, threadIdx.x, THREADS);
            __syncthreads();
            rotate_rows(j, threadIdx.x, THREADS);
        }
        __syncthreads();
        converged = is_diagonal(j, tolerance, sums, &rest);
    }
    if (threadIdx.x == 0)
        *j.state = {rest, sweep, converged};
}
/* Eigenvalues, ascending, and their vectors in place of A. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    jacobi_write(jacobi<T> all, bool vectors, batch<T> a, i64 lda, real_of<T> *values, int *infos)
{
    const jacobi<T> j = all.at(blockIdx.x);
    T *const to = a[blockIdx.x];
    for (i64 i = threadIdx.x; i < j.n; i += THREADS) {
        const real_of<T> own = re(j.w[i * (j.n + 1)]);
        int place = 0;
        for (i64 k = 0; k < j.n; k++) {
            const real_of<T> other = re(j.w[k * (j.n + 1)]);
            place += other < own || (!(other > own) && k < i);
        }
        j.order[i] = place < j.n ? place : (int)j.n - 1;
        values[blockIdx.x * j.n + j.order[i]] = own * *j.scale;
    }
    __syncthreads();
    for (i64 e = threadIdx.x; vectors && e < j.n * j.n; e += THREADS)
        to[e % j.n + j.order[e / j.n] * lda] = j.v[e];
    if (threadIdx.x == 0)
        infos[blockIdx.x] = j.state->converged ? 0 : (int)j.n + 1;
}

template <class T> static i64 syevj_workspace(i64 n, i64 count)
{
    workspace memory{nullptr, 0};
    for (i64 z = 0; z < count; z++)
        jacobi_of<T>(memory, n);
    return memory.elements<T>();
}
template <class T> static status jacobi_steps(handle h, jacobi<T> j, int sweeps, real_of<T> tolerance)
{
    const i64 players = (j.n + 1) / 2 * 2;
    const unsigned blocks = (unsigned)least(ceiling(players / 2 * j.n, THREADS), 65535);
    jacobi_state state{};
    jacobi_measure<T><<<1, THREADS, 0, h->stream>>>(j, 0, tolerance);
    for (int sweep = 0;; sweep++) {
        SOLVER_TRY(launched());
        SOLVER_TRY(status_of(cudaMemcpyAsync(&state, j.state, sizeof state, cudaMemcpyDeviceToHost, h->stream)));
        SOLVER_TRY(status_of(cudaStreamSynchronize(h->stream)));
        if (state.converged || sweep == sweeps)
            return CUSOLVER_STATUS_SUCCESS;
        for (i64 step = 0; step < players - 1; step++) {
            jacobi_find<T><<<(unsigned)ceiling(players / 2, THREADS), THREADS, 0, h->stream>>>(j, step);
            jacobi_columns<T><<<blocks, THREADS, 0, h->stream>>>(j);
            jacobi_rows<T><<<blocks, THREADS, 0, h->stream>>>(j);
        }
        jacobi_measure<T><<<1, THREADS, 0, h->stream>>>(j, sweep + 1, tolerance);
    }
}
/* Without a batch, `told` learns about the call. */
template <class T>
static status syevj(handle h, bool vectors, cublasFillMode_t fill, i64 n, batch<T> a, i64 lda, real_of<T> *values,
                    T *work, int *infos, const syevjInfo &parameters, int count, syevjInfo *told)
{
    typedef real_of<T> R;
    if (n == 0 || count == 0)
        return n == 0 && count > 0 ? status_of(cudaMemsetAsync(infos, 0, count * sizeof(int), h->stream))
                                   : CUSOLVER_STATUS_SUCCESS;
    workspace memory = workspace_of(work);
    const jacobi<T> j = jacobi_of<T>(memory, n);
    const R least_tolerance = precision<T>::epsilon;
    const R tolerance = parameters.tolerance > least_tolerance ? (R)parameters.tolerance : least_tolerance;
    jacobi_load<T>
        <<<count, THREADS, 0, h->stream>>>(j, fill == CUBLAS_FILL_MODE_LOWER, {a.first, nullptr, a.jump}, lda);
    if (n <= ONE_BLOCK_ORDER || count > 1)
        jacobi_all<T><<<count, THREADS, 0, h->stream>>>(j, parameters.max_sweeps, tolerance);
    else
        SOLVER_TRY(jacobi_steps(h, j, parameters.max_sweeps, tolerance));
    jacobi_write<T><<<count, THREADS, 0, h->stream>>>(j, vectors, a, lda, values, infos);
    SOLVER_TRY(launched());
    if (!told)
        return CUSOLVER_STATUS_SUCCESS;
    jacobi_state state;
    R scale;
    SOLVER_TRY(status_of(cudaMemcpyAsync(&state, j.state, sizeof state, cudaMemcpyDeviceToHost, h->stream)));
    SOLVER_TRY(status_of(cudaMemcpyAsync(&scale, j.scale, sizeof scale, cudaMemcpyDeviceToHost, h->stream)));
    SOLVER_TRY(status_of(cudaStreamSynchronize(h->stream)));
    told->residual = root(state.rest) * (double)scale;
    told->sweeps = state.sweeps;
    return CUSOLVER_STATUS_SUCCESS;
}
} // namespace solver

/* sy: the name's middle, sy or he. */
#define SOLVER_JACOBI(S, sy, T, R)                                                                                     \
    using namespace solver;                                                                                            \
    status cusolverDn##S##sy##evj_bufferSize(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n,           \
                                             const T *, int lda, const R *, int *size, syevjInfo_t parameters)         \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && size && parameters);     \
        *size = (int)syevj_workspace<inside<T>::type>(n, 1);                                                           \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##evj(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T *a, int lda, R *w, \
                                  T *work, int size, int *info, syevjInfo_t parameters)                                \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && work && info &&          \
                     parameters && size >= syevj_workspace<inside<T>::type>(n, 1));                                    \
        return syevj<inside<T>::type>(h, mode, fill, n, {in(a), nullptr, 0}, lda, w, in(work), info, *parameters, 1,   \
                                      parameters);                                                                     \
    }                                                                                                                  \
    status cusolverDn##S##sy##evjBatched_bufferSize(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n,    \
                                                    const T *, int lda, const R *, int *size, syevjInfo_t parameters,  \
                                                    int count)                                                         \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && size && parameters &&    \
                     count >= 0);                                                                                      \
        *size = (int)syevj_workspace<inside<T>::type>(n, count);                                                       \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##sy##evjBatched(handle h, cusolverEigMode_t mode, cublasFillMode_t fill, int n, T *a,         \
                                         int lda, R *w, T *work, int size, int *infos, syevjInfo_t parameters,         \
                                         int count)                                                                    \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && n >= 0 && is_leading(lda, n) && work && infos &&         \
                     parameters && count >= 0 && size >= syevj_workspace<inside<T>::type>(n, count));                  \
        return syevj<inside<T>::type>(h, mode, fill, n, {in(a), nullptr, (i64)lda * n}, lda, w, in(work), infos,       \
                                      *parameters, count, nullptr);                                                    \
    }
