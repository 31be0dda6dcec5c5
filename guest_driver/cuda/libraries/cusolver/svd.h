/* Singular values by one-sided Jacobi rotations: columns are rotated in pairs until all are orthogonal. Their lengths
 * are the singular values. Wide matrices are transposed first. A warp has a pair; the pairs of a step share no column.
 */
#pragma once
#include "families.h"
#include "sums.h"

namespace solver
{
constexpr int LANES = 32, PAIRS = 4; /* of a block that rotates */
constexpr i64 ONE_BLOCK = 48;        /* columns up to which one block does all steps */
constexpr int SWEEPS = 100;          /* at most, unless told otherwise */
constexpr double NEVER = -1;

struct svd_state {
    double residual; /* squared: what is left of products of columns */
    int rotations, sweeps;
};
/* A decomposition's memory; that of matrix z lies `stride` bytes behind the one before. */
template <class T> struct svd {
    i64 m, n; /* m >= n */
    T *x, *v, *products;
    real_of<T> *lengths, *weights, *scale;
    int *order;
    svd_state *state;
    size_t stride;
    template <class Any> static __device__ Any *moved(Any *at, size_t bytes)
    {
        return (Any *)((char *)at + bytes);
    }
    __device__ svd at(size_t z) const
    {
        const size_t by = z * stride;
        return {m,
                n,
                moved(x, by),
                moved(v, by),
                moved(products, by),
                moved(lengths, by),
                moved(weights, by),
                moved(scale, by),
                moved(order, by),
                moved(state, by),
                stride};
    }
};
template <class T> static svd<T> svd_of(workspace &memory, i64 rows, i64 columns)
{
    svd<T> made;
    const size_t begin = memory.used;
    made.m = most(rows, columns);
    made.n = least(rows, columns);
    made.x = memory.take<T>(made.m * made.n);
    made.v = memory.take<T>(made.n * made.n);
    made.products = memory.take<T>(made.m);
    made.lengths = memory.take<real_of<T>>(made.n);
    made.weights = memory.take<real_of<T>>(made.m);
    made.scale = memory.take<real_of<T>>(1);
    made.order = memory.take<int>(made.n);
    made.state = memory.take<svd_state>(1);
    made.stride = memory.used - begin;
    return made;
}

/* X = A or A^H with elements of at most 1, V = 1. */
template <class T>
__global__ void __launch_bounds__(THREADS) svd_load(svd<T> all, bool turned, batch<const T> a, i64 lda)
{
    typedef real_of<T> R;
    __shared__ R sizes[THREADS];
    const svd<T> s = all.at(blockIdx.x);
    const T *const from = a[blockIdx.x];
    const i64 rows = turned ? s.n : s.m, columns = turned ? s.m : s.n;
    R size = 0;
    for (i64 j = 0; j < columns; j++)
        for (i64 i = threadIdx.x; i < rows; i += THREADS) {
            const R own = magnitude(from[i + j * lda]);
            size = own > size ? own : size;
        }
    size = greatest_of_threads(size, sizes);
    const R inverse = size > 0 ? 1 / size : 1;
    for (i64 j = 0; j < columns; j++)
        for (i64 i = threadIdx.x; i < rows; i += THREADS) {
            const T value = inverse * from[i + j * lda];
            if (turned)
                s.x[j + i * s.m] = conjugate(value);
            else
                s.x[i + j * s.m] = value;
        }
    for (i64 j = 0; j < s.n; j++)
        for (i64 i = threadIdx.x; i < s.n; i += THREADS)
            s.v[i + j * s.n] = i == j ? one<T>() : zero<T>();
    if (threadIdx.x == 0) {
        *s.scale = size;
        s.state->residual = 0;
        s.state->rotations = s.state->sweeps = 0;
    }
}

template <class R> __device__ R sum_of_lanes(R value)
{
    for (int other = LANES / 2; other > 0; other /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, other);
    return value;
}
template <class R> __device__ complex<R> sum_of_lanes(complex<R> value)
{
    return {sum_of_lanes(value.x), sum_of_lanes(value.y)};
}
template <class T> __device__ void turn_columns(i64 n, T *p, T *q, real_of<T> c, real_of<T> s, T phase)
{
    for (i64 i = threadIdx.x; i < n; i += LANES) {
        const T first = p[i], second = phase * q[i];
        p[i] = c * first - s * second;
        q[i] = s * first + c * second;
    }
}
/* Makes two columns orthogonal. */
template <class T> __device__ void rotate_pair(const svd<T> &s, i64 p, i64 q, real_of<T> tolerance, svd_state *state)
{
    typedef real_of<T> R;
    T *const first = s.x + p * s.m, *const second = s.x + q * s.m;
    R alpha = 0, beta = 0;
    T gamma = zero<T>();
    for (i64 i = threadIdx.x; i < s.m; i += LANES) {
        alpha += square(first[i]);
        beta += square(second[i]);
        gamma += conjugate(first[i]) * second[i];
    }
    alpha = sum_of_lanes(alpha);
    beta = sum_of_lanes(beta);
    gamma = sum_of_lanes(gamma);
    const R size = absolute(gamma);
    if (size > 0 && alpha > 0 && beta > 0 && threadIdx.x == 0) {
        const R to_first = size / root(alpha), to_second = size / root(beta);
        atomicAdd(&state->residual, (double)to_first * to_first + (double)to_second * to_second);
    }
    if (!(size > tolerance * root(alpha) * root(beta)))
        return;
    const R half = (beta - alpha) / (2 * size);
    const R t = (half < 0 ? R(-1) : R(1)) / (absolute(half) + longer(R(1), half));
    const R c = 1 / longer(R(1), t);
    const T phase = (1 / size) * conjugate(gamma);
    turn_columns(s.m, first, second, c, c * t, phase);
    turn_columns(s.n, s.v + p * s.n, s.v + q * s.n, c, c * t, phase);
    if (threadIdx.x == 0)
        atomicAdd(&state->rotations, 1);
}
/* Pairs of a step as in a tournament, where one stays and the others go around. */
template <class T>
__device__ void rotate_step(const svd<T> &s, i64 step, i64 pair, real_of<T> tolerance, svd_state *state)
{
    const i64 players = (s.n + 1) / 2 * 2;
    const i64 one_place = pair, other_place = players - 1 - pair;
    const i64 p = one_place == 0 ? 0 : 1 + (one_place - 1 + step) % (players - 1);
    const i64 q = 1 + (other_place - 1 + step) % (players - 1);
    if (pair < players / 2 && p < s.n && q < s.n)
        rotate_pair(s, p < q ? p : q, p < q ? q : p, tolerance, state);
}
template <class T> __global__ void __launch_bounds__(LANES *PAIRS) svd_step(svd<T> s, i64 step, real_of<T> tolerance)
{
    rotate_step(s, step, (i64)blockIdx.x * PAIRS + threadIdx.y, tolerance, s.state);
}
template <class T>
__global__ void __launch_bounds__(LANES *PAIRS) svd_all_steps(svd<T> all, int sweeps, real_of<T> tolerance)
{
    __shared__ svd_state state;
    const svd<T> s = all.at(blockIdx.x);
    const i64 players = (s.n + 1) / 2 * 2;
    int sweep = 0;
    for (; sweep < sweeps; sweep++) {
        __syncthreads();
        if (threadIdx.x == 0 && threadIdx.y == 0)
            state = {0, 0, 0};
        __syncthreads();
        for (i64 step = 0; step < players - 1; step++) {
            for (i64 pair = 0; pair < players / 2; pair += PAIRS)
                rotate_step(s, step, pair + threadIdx.y, tolerance, &state);
            __syncthreads();
        }
        if (state.rotations == 0)
            break;
    }
    if (threadIdx.x == 0 && threadIdx.y == 0)
        *s.state = {state.residual, state.rotations, sweep};
}
/* Singular values, descending, and where each column goes. */
template <class T>
__global__ void __launch_bounds__(THREADS) svd_sort(svd<T> all, i64 kept, real_of<T> *values, i64 jump, int *infos)
{
    typedef real_of<T> R;
    __shared__ R sums[THREADS];
    const svd<T> s = all.at(blockIdx.x);
    R *const to = values + blockIdx.x * jump;
    for (i64 j = 0; j < s.n; j++) {
        R sum = 0;
        for (i64 i = threadIdx.x; i < s.m; i += THREADS)
            sum += square(s.x[i + j * s.m]);
        sum = sum_of_threads(sum, sums);
        if (threadIdx.x == 0)
            s.lengths[j] = root(sum);
    }
    __syncthreads();
    for (i64 j = threadIdx.x; j < s.n; j += THREADS) {
        int place = 0;
        for (i64 other = 0; other < s.n; other++)
            place += s.lengths[other] > s.lengths[j] || (s.lengths[other] == s.lengths[j] && other < j);
        s.order[j] = place;
        if (place < kept)
            to[place] = s.lengths[j] * *s.scale;
    }
    if (threadIdx.x == 0)
        infos[blockIdx.x] = s.state->rotations == 0 ? 0 : (int)s.n + 1;
}
/* Singular vectors: columns of X made of length 1, or those of V. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    svd_write(svd<T> all, bool of_x, i64 kept, bool conjugates, i64 row, i64 column, batch<T> to)
{
    const svd<T> s = all.at(blockIdx.z);
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, rows = of_x ? s.m : s.n;
    T *const target = to[blockIdx.z];
    if (i >= rows)
        return;
    for (i64 j = blockIdx.y; j < s.n; j += gridDim.y) {
        const real_of<T> length = s.lengths[j];
        const T value = of_x ? (length > 0 ? 1 / length : 0) * s.x[i + j * s.m] : s.v[i + j * s.n];
        if (s.order[j] < kept)
            target[i * row + s.order[j] * column] = conjugate_if(conjugates, value);
    }
}
/* Makes columns orthogonal to all before: those of vanishing singular values, and those behind the last. */
template <class T> __global__ void __launch_bounds__(THREADS) svd_complete(svd<T> all, i64 columns, batch<T> to, i64 ld)
{
    typedef real_of<T> R;
    __shared__ R sums[THREADS];
    __shared__ i64 chosen;
    const svd<T> s = all.at(blockIdx.x);
    T *const u = to[blockIdx.x];
    const i64 m = s.m;
    int own = 0;
    for (i64 j = threadIdx.x; j < s.n; j += THREADS)
        own += s.lengths[j] > 0;
    const i64 rank = (i64)sum_of_threads((R)own, sums);
    for (i64 c = rank; c < columns; c++) {
        T *const made = u + c * ld;
        for (i64 i = threadIdx.x; i < m; i += THREADS) {
            R weight = 0;
            for (i64 j = 0; j < c; j++)
                weight += square(u[i + j * ld]);
            s.weights[i] = weight;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            chosen = 0;
            for (i64 i = 1; i < m; i++)
                if (s.weights[i] < s.weights[chosen])
                    chosen = i;
        }
        __syncthreads();
        for (i64 i = threadIdx.x; i < m; i += THREADS)
            made[i] = i == chosen ? one<T>() : zero<T>();
        for (int round = 0; round < 3; round++) {
            __syncthreads();
            for (i64 j = threadIdx.x; j < c; j += THREADS) {
                T product = zero<T>();
                for (i64 i = 0; i < m; i++)
                    product += conjugate(u[i + j * ld]) * made[i];
                s.products[j] = product;
            }
            __syncthreads();
            R sum = 0;
            for (i64 i = threadIdx.x; i < m; i += THREADS) {
                T rest = made[i];
                for (i64 j = 0; j < c; j++)
                    rest = rest - u[i + j * ld] * s.products[j];
                made[i] = rest;
                sum += square(rest);
            }
            const R inverse = 1 / root(sum_of_threads(sum, sums));
            for (i64 i = threadIdx.x; i < m; i += THREADS)
                made[i] = inverse * made[i];
        }
        __syncthreads();
    }
}

/* ---- launches ---- */

struct svd_limits {
    double tolerance;
    int sweeps;
};
/* Rotates until all columns are orthogonal; `count` matrices. */
template <class T>
static status svd_rotate(handle h, svd<T> s, bool turned, batch<const T> a, i64 lda, int count, svd_limits limits)
{
    typedef real_of<T> R;
    const R least_tolerance = precision<T>::epsilon * root((R)s.m);
    const R tolerance = limits.tolerance > least_tolerance ? (R)limits.tolerance : least_tolerance;
    const dim3 threads(LANES, PAIRS);
    svd_load<T><<<count, THREADS, 0, h->stream>>>(s, turned, a, lda);
    if (s.n <= ONE_BLOCK || count > 1) {
        svd_all_steps<T><<<count, threads, 0, h->stream>>>(s, limits.sweeps, tolerance);
        return launched();
    }
    const i64 players = (s.n + 1) / 2 * 2;
    svd_state state{0, 1, 0};
    for (int sweep = 0; sweep < limits.sweeps && state.rotations; sweep++) {
        state = {0, 0, sweep};
        SOLVER_TRY(status_of(cudaMemcpyAsync(s.state, &state, sizeof state, cudaMemcpyHostToDevice, h->stream)));
        for (i64 step = 0; step < players - 1; step++)
            svd_step<T><<<(unsigned)ceiling(players / 2, PAIRS), threads, 0, h->stream>>>(s, step, tolerance);
        SOLVER_TRY(launched());
        SOLVER_TRY(status_of(cudaMemcpyAsync(&state, s.state, sizeof state, cudaMemcpyDeviceToHost, h->stream)));
        SOLVER_TRY(status_of(cudaStreamSynchronize(h->stream)));
    }
    return CUSOLVER_STATUS_SUCCESS;
}
/* Where singular vectors go: none if `columns` is 0. */
template <class T> struct svd_target {
    batch<T> to;
    i64 columns, row, column;
    bool conjugates;
};
template <class T> static void svd_put(handle h, svd<T> s, bool of_x, svd_target<T> to, int count)
{
    if (to.columns == 0)
        return;
    dim3 grid = plane(of_x ? s.m : s.n, s.n);
    grid.z = count;
    svd_write<T><<<grid, THREADS, 0, h->stream>>>(s, of_x, to.columns, to.conjugates, to.row, to.column, to.to);
    if (of_x)
        svd_complete<T><<<count, THREADS, 0, h->stream>>>(s, to.columns, to.to, to.column);
}
/* A = U S V^H. `u` and `v` have columns. */
template <class T>
static status svd_run(handle h, svd<T> s, bool turned, batch<const T> a, i64 lda, i64 kept, real_of<T> *values,
                      i64 jump, svd_target<T> u, svd_target<T> v, int *infos, int count, svd_limits limits)
{
    SOLVER_TRY(svd_rotate(h, s, turned, a, lda, count, limits));
    svd_sort<T><<<count, THREADS, 0, h->stream>>>(s, kept, values, jump, infos);
    svd_put(h, s, !turned, u, count);
    svd_put(h, s, turned, v, count);
    return launched();
}

template <class T> i64 gesvd_workspace(i64 m, i64 n)
{
    workspace memory{nullptr, 0};
    svd_of<T>(memory, m, n);
    return memory.elements<T>();
}
/* LAPACK's gesvd for tall matrices. */
template <class T>
status gesvd(handle h, char jobu, char jobv, i64 m, i64 n, T *a, i64 lda, real_of<T> *values, T *u, i64 ldu, T *vt,
             i64 ldvt, T *work, int *info)
{
    if (n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    workspace memory = workspace_of(work);
    const svd<T> s = svd_of<T>(memory, m, n);
    const i64 columns = jobu == 'A' ? m : jobu == 'N' ? 0 : n;
    const svd_target<T> left{{jobu == 'O' ? a : u, nullptr, 0}, columns, 1, jobu == 'O' ? lda : ldu, false};
    const svd_target<T> right{
        {jobv == 'O' ? a : vt, nullptr, 0}, jobv == 'N' ? 0 : n, jobv == 'O' ? lda : ldvt, 1, true};
    return svd_run<T>(h, s, false, {a, nullptr, 0}, lda, n, values, 0, left, right, info, 1, {NEVER, SWEEPS});
}
} // namespace solver
