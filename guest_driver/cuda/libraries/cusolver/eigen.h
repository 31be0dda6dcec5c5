/* Eigenvalues of Hermitian matrices: reflectors make the matrix tridiagonal, the implicit QL algorithm finds the
 * eigenvalues, and its rotations and the reflectors the eigenvectors. */
#pragma once
#include "families.h"
#include "sums.h"

namespace solver
{
constexpr int ROWS = 64;         /* of eigenvectors that a block rotates */
constexpr i64 SMALL_ORDER = 128; /* order up to which one block makes a matrix tridiagonal */
constexpr int ROUNDS = 50;       /* of QL for an eigenvalue, at most */

/* Memory of a decomposition. */
template <class T> struct eigen_memory {
    real_of<T> *d, *e, *rotations, *turned;
    T *tau, *v, *p, *vectors, *more;
    int *order, *info;
};
template <class T> static eigen_memory<T> eigen_memory_of(workspace &memory, bool vectors, i64 n)
{
    typedef real_of<T> R;
    eigen_memory<T> made{};
    const i64 blocks = vectors ? ceiling(n, ROWS) : 1;
    made.info = memory.take<int>(1);
    made.order = memory.take<int>(n);
    made.d = memory.take<R>(n);
    made.e = memory.take<R>(n);
    made.tau = memory.take<T>(n);
    made.v = memory.take<T>(n);
    made.p = memory.take<T>(n);
    made.rotations = memory.take<R>(4 * n * blocks);
    if (vectors) {
        made.turned = memory.take<R>(n * n);
        made.vectors = memory.take<T>(n * n);
        made.more = memory.take<T>(apply_q_workspace<T>(CUBLAS_SIDE_LEFT, n, n, n));
    }
    return made;
}

/* v of column j, and p = A v for the block's rows. Column j itself is left alone. */
template <class T>
__device__ void multiply_reflector(i64 n, i64 j, const T *a, i64 lda, eigen_memory<T> to, i64 begin, i64 step,
                                   real_of<T> *reals)
{
    const T *const column = a + j + 1 + j * lda;
    const i64 m = n - j - 1;
    const reflector<T> made = reflector_of(m, column, reals);
    for (i64 i = threadIdx.x; i < m; i += THREADS) /* all blocks write the same */
        to.v[i] = i == 0 ? one<T>() : made.scale * column[i];
    if (begin == 0 && threadIdx.x == 0) {
        to.d[j] = re(a[j + j * lda]);
        to.e[j] = made.beta;
        to.tau[j] = made.tau;
    }
    __syncthreads();
    const T *const rest = a + (j + 1) * (lda + 1);
    for (i64 i = begin + threadIdx.x; i < m; i += step) {
        T sum = zero<T>();
        for (i64 k = 0; k < m; k++)
            sum += rest[i + k * lda] * to.v[k];
        to.p[i] = made.tau * sum;
    }
}
/* A -= v w^H + w v^H for w = p - conj(tau) / 2 (p^H v) v, columns of the block. */
template <class T>
__device__ void update_rest(i64 n, i64 j, T *a, i64 lda, eigen_memory<T> from, i64 begin, i64 step, T *sums)
{
    const i64 m = n - j - 1;
    T sum = zero<T>();
    for (i64 i = threadIdx.x; i < m; i += THREADS)
        sum += conjugate(from.p[i]) * from.v[i];
    sum = sum_of_threads(sum, sums);
    const T factor = real_of<T>(0.5) * (from.tau[j] * sum);
    T *const rest = a + (j + 1) * (lda + 1);
    for (i64 k = begin; k < m; k += step) {
        const T v = conjugate(from.v[k]), w = conjugate(from.p[k] - factor * from.v[k]);
        for (i64 i = threadIdx.x; i < m; i += THREADS)
            rest[i + k * lda] = rest[i + k * lda] - from.v[i] * w - (from.p[i] - factor * from.v[i]) * v;
    }
    /* the reflector, where LAPACK has it */
    if (begin == 0)
        for (i64 i = threadIdx.x; i < m; i += THREADS)
            a[j + 1 + i + j * lda] = i == 0 ? from_real<T>(from.e[j]) : from.v[i];
}
template <class T>
__global__ void __launch_bounds__(THREADS) tridiagonal_step(i64 n, i64 j, T *a, i64 lda, eigen_memory<T> memory)
{
    __shared__ real_of<T> reals[THREADS];
    multiply_reflector(n, j, (const T *)a, lda, memory, (i64)blockIdx.x * THREADS, (i64)gridDim.x * THREADS, reals);
}
template <class T>
__global__ void __launch_bounds__(THREADS) tridiagonal_update(i64 n, i64 j, T *a, i64 lda, eigen_memory<T> memory)
{
    __shared__ T sums[THREADS];
    update_rest(n, j, a, lda, memory, (i64)blockIdx.x, (i64)gridDim.x, sums);
}
template <class T>
__global__ void __launch_bounds__(THREADS) tridiagonal_all(i64 n, T *a, i64 lda, eigen_memory<T> memory)
{
    __shared__ real_of<T> reals[THREADS];
    __shared__ T sums[THREADS];
    for (i64 j = 0; j < n - 1; j++) {
        multiply_reflector(n, j, (const T *)a, lda, memory, 0, THREADS, reals);
        __syncthreads();
        update_rest(n, j, a, lda, memory, 0, 1, sums);
        __syncthreads();
    }
}
template <class T> __global__ void last_diagonal(i64 n, const T *a, i64 lda, eigen_memory<T> memory)
{
    memory.d[n - 1] = re(a[(n - 1) * (lda + 1)]);
    memory.e[n - 1] = 0;
}

/* One sweep of QL between l and m, by one thread: rotations go to `cosines` and `sines`. Returns the first rotation. */
template <class R> __device__ int ql_sweep(int l, int m, R *d, R *e, R *cosines, R *sines)
{
    R g = (d[l + 1] - d[l]) / (2 * e[l]);
    R r = longer(g, R(1));
    g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
    R s = 1, c = 1, p = 0;
    int i = m - 1;
    for (; i >= l; i--) {
        const R f = s * e[i], b = c * e[i];
        r = longer(f, g);
        e[i + 1] = r;
        if (r == 0) { /* splits here: the rest is for the next sweep */
            d[i + 1] -= p;
            e[m] = 0;
            return i + 1;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        cosines[i] = c;
        sines[i] = s;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
    return l;
}
/* Each block finds the eigenvalues by itself, in memory of its own, and turns its rows of the vectors. */
template <class T> __global__ void __launch_bounds__(ROWS) ql(int n, bool vectors, eigen_memory<T> memory)
{
    typedef real_of<T> R;
    __shared__ int from, to, failed;
    __shared__ R negligible;
    R *const d = memory.rotations + (i64)blockIdx.x * 4 * n, *const e = d + n, *const cosines = e + n,
             *const sines = cosines + n;
    R *const row = memory.turned + (i64)blockIdx.x * ROWS + threadIdx.x;
    const int i = blockIdx.x * ROWS + threadIdx.x;
    const bool turns = vectors && i < n;
    for (int k = threadIdx.x; k < n; k += ROWS) {
        d[k] = memory.d[k];
        e[k] = memory.e[k];
    }
    if (turns)
        for (int k = 0; k < n; k++)
            row[(i64)k * n] = k == i ? 1 : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        R size = 0;
        for (int k = 0; k < n; k++)
            size = absolute(d[k]) + absolute(e[k]) > size ? absolute(d[k]) + absolute(e[k]) : size;
        negligible = precision<R>::epsilon * size;
        failed = 0;
    }
    __syncthreads();
    for (int l = 0, round = 0; l < n;) {
        if (threadIdx.x == 0) {
            int m = l;
            for (; m < n - 1; m++)
                if (absolute(e[m]) <= precision<R>::epsilon * (absolute(d[m]) + absolute(d[m + 1])) ||
                    absolute(e[m]) <= negligible)
                    break;
            from = to = m;
            const bool is_number = d[l] == d[l] && e[l] == e[l];
            if (m != l && round < ROUNDS && is_number)
                from = ql_sweep(l, m, d, e, cosines, sines);
            else if (m != l) {
                failed++;
                to = l;
            }
        }
        __syncthreads();
        const int m = to, first = from;
        if (turns && m != l) {
            R upper = row[(i64)m * n];
            for (int k = m - 1; k >= first; k--) {
                const R lower = row[(i64)k * n], c = cosines[k], s = sines[k];
                row[(i64)(k + 1) * n] = s * lower + c * upper;
                upper = c * lower - s * upper;
            }
            row[(i64)first * n] = upper;
        }
        __syncthreads();
        if (m == l) {
            l++;
            round = 0;
        } else
            round++;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *memory.info = failed;
}
/* Where each eigenvalue goes, in ascending order. */
template <class T>
__global__ void __launch_bounds__(THREADS) sort_values(int n, eigen_memory<T> memory, real_of<T> *values, int *info)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i == 0)
        *info = *memory.info;
    if (i >= n)
        return;
    const real_of<T> *const d = memory.rotations, own = d[i]; /* as the first block left them */
    int place = 0;
    for (int k = 0; k < n; k++)
        place += d[k] < own || (!(d[k] > own) && k < i);
    memory.order[i] = place < n ? place : n - 1;
    values[memory.order[i]] = own;
}
template <class T> __global__ void __launch_bounds__(THREADS) sort_vectors(i64 n, eigen_memory<T> memory)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        for (i64 j = blockIdx.y; j < n; j += gridDim.y)
            memory.vectors[i + memory.order[j] * n] = from_real<T>(memory.turned[i + j * n]);
}

template <class T> i64 eigen_workspace(bool vectors, i64 n)
{
    workspace memory{nullptr, 0};
    eigen_memory_of<T>(memory, vectors, n);
    return memory.elements<T>();
}
/* A, of which both triangles are there, becomes the reflectors below its subdiagonal. */
template <class T> static status make_tridiagonal(handle h, i64 n, T *a, i64 lda, eigen_memory<T> memory)
{
    if (n > 1 && n <= SMALL_ORDER)
        tridiagonal_all<T><<<1, THREADS, 0, h->stream>>>(n, a, lda, memory);
    for (i64 j = 0; n > SMALL_ORDER && j < n - 1; j++) {
        tridiagonal_step<T><<<(unsigned)ceiling(n - j - 1, THREADS), THREADS, 0, h->stream>>>(n, j, a, lda, memory);
        tridiagonal_update<T><<<(unsigned)ceiling(n - j - 1, 32), THREADS, 0, h->stream>>>(n, j, a, lda, memory);
    }
    last_diagonal<T><<<1, 1, 0, h->stream>>>(n, a, lda, memory);
    return launched();
}
template <class T>
status eigen(handle h, bool vectors, cublasFillMode_t fill, i64 n, T *a, i64 lda, real_of<T> *values, T *work,
             int *info)
{
    if (n == 0)
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
    workspace space = workspace_of(work);
    const eigen_memory<T> memory = eigen_memory_of<T>(space, vectors, n);
    SOLVER_TRY(fill_hermitian(h, fill, n, a, lda));
    SOLVER_TRY(make_tridiagonal(h, n, a, lda, memory));
    ql<T><<<vectors ? (unsigned)ceiling(n, ROWS) : 1, ROWS, 0, h->stream>>>((int)n, vectors, memory);
    sort_values<T><<<(unsigned)ceiling(n, THREADS), THREADS, 0, h->stream>>>((int)n, memory, values, info);
    if (!vectors)
        return launched();
    sort_vectors<T><<<plane(n, n), THREADS, 0, h->stream>>>(n, memory);
    if (n > 1)
        SOLVER_TRY(apply_q(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, n - 1, n, n - 1, a + 1, lda, memory.tau,
                           memory.vectors + 1, n, memory.more));
    return copy_matrix(h, CUBLAS_OP_N, WHOLE, n, n, memory.vectors, n, a, lda);
}
} // namespace solver
