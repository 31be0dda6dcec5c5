/* Householder reflectors H = I - tau v v^H, and QR decompositions made of them: panels of columns, whose reflectors are
 * applied to the rest together, as I - V T V^H. */
#pragma once
#include "families.h"
#include "sums.h"

namespace solver
{
constexpr int WIDTH = 32, AT_ONCE = 8; /* columns of a panel, and those whose sums are made together */

/* w[c] = v^H a(:, c) for a few columns; all threads of the block take part. */
template <class T> __device__ void project(i64 m, int columns, const T *v, const T *a, i64 lda, T (*sums)[THREADS])
{
    for (int c = 0; c < columns; c++) {
        T sum = zero<T>();
        for (i64 i = threadIdx.x; i < m; i += THREADS)
            sum += conjugate(i == 0 ? one<T>() : v[i]) * a[i + c * lda];
        sums[c][threadIdx.x] = sum;
    }
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        for (int c = 0; c < columns; c++)
            if ((int)threadIdx.x < half)
                sums[c][threadIdx.x] += sums[c][threadIdx.x + half];
        __syncthreads();
    }
}
/* QR of m x n elements by one block of threads. */
template <class T>
__global__ void __launch_bounds__(THREADS) reflect_panel(i64 m, int n, T *a, i64 lda, T *taus, int *info)
{
    __shared__ T sums[AT_ONCE][THREADS];
    __shared__ real_of<T> reals[THREADS];
    for (int j = 0; j < n && j < m; j++) {
        __syncthreads();
        T *const v = a + j + j * lda;
        const reflector<T> made = reflect(m - j, v, reals);
        for (int first = j + 1; first < n; first += AT_ONCE) {
            const int columns = n - first < AT_ONCE ? n - first : AT_ONCE;
            T *const others = a + j + first * lda;
            project(m - j, columns, v, others, lda, sums);
            for (int c = 0; c < columns; c++) {
                const T factor = conjugate(made.tau) * sums[c][0];
                for (i64 i = threadIdx.x; i < m - j; i += THREADS)
                    others[i + c * lda] = others[i + c * lda] - (i == 0 ? one<T>() : v[i]) * factor;
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            taus[j] = made.tau;
            v[0] = from_real<T>(made.beta);
        }
    }
    if (threadIdx.x == 0 && info)
        *info = 0;
}
/* The reflectors as a matrix: ones on the diagonal and zeros above. */
template <class T> __global__ void __launch_bounds__(THREADS) write_reflectors(i64 m, int k, const T *a, i64 lda, T *v)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < m)
        for (int j = 0; j < k; j++)
            v[i + j * m] = i > j ? a[i + j * lda] : i == j ? one<T>() : zero<T>();
}
/* T of k reflectors from V^H V, in its place. */
template <class T> __global__ void __launch_bounds__(WIDTH) join_reflectors(int k, const T *taus, T *t)
{
    __shared__ T made[WIDTH][WIDTH];
    const int i = threadIdx.x;
    for (int j = 0; j < k; j++) {
        T sum = zero<T>();
        if (i < j)
            for (int c = i; c < j; c++)
                sum += made[c][i] * t[c + j * WIDTH];
        __syncthreads();
        made[j][i] = i < j ? -taus[j] * sum : i == j ? taus[j] : zero<T>();
        __syncthreads();
    }
    for (int j = 0; j < k; j++)
        if (i < k)
            t[i + j * WIDTH] = made[j][i];
}

/* Whether the arguments of ormqr and its like are right. */
template <class T>
static bool is_mqr(cublasSideMode_t side, cublasOperation_t op, i64 m, i64 n, i64 k, i64 lda, i64 ldc)
{
    const i64 order = side == CUBLAS_SIDE_LEFT ? m : n;
    const bool is_real = !number<typename inside<T>::type>::is_complex;
    return is_side(side) && is_operation(op) && (is_real || op != CUBLAS_OP_T) && m >= 0 && n >= 0 && k >= 0 &&
           k <= order && is_leading(lda, order) && is_leading(ldc, m);
}

/* V, T and two products beside a matrix of `other` rows or columns. */
template <class T> struct joined {
    T *v, *t, *products, *more;
    i64 elements;
    joined(T *work, i64 m, i64 other)
        : v(work), t(v + m * WIDTH), products(t + WIDTH * WIDTH), more(products + other * WIDTH),
          elements((m + 2 * other + WIDTH) * WIDTH)
    {
    }
};
template <class T> static status join(handle h, i64 m, int k, const T *a, i64 lda, const T *taus, joined<T> made)
{
    write_reflectors<T><<<(unsigned)ceiling(m, THREADS), THREADS, 0, h->stream>>>(m, k, a, lda, made.v);
    SOLVER_TRY(gemm(h, CUBLAS_OP_C, CUBLAS_OP_N, k, k, m, one<T>(), made.v, m, made.v, m, zero<T>(), made.t, WIDTH));
    join_reflectors<T><<<1, WIDTH, 0, h->stream>>>(k, taus, made.t);
    return launched();
}
/* C = op(I - V T V^H) C, or from the right; op: none or the conjugated transposed. */
template <class T>
static status apply(handle h, cublasSideMode_t side, cublasOperation_t op, i64 m, i64 n, int k, joined<T> q, T *c,
                    i64 ldc)
{
    if (side == CUBLAS_SIDE_LEFT) {
        SOLVER_TRY(gemm(h, CUBLAS_OP_C, CUBLAS_OP_N, k, n, m, one<T>(), q.v, m, c, ldc, zero<T>(), q.products, WIDTH));
        SOLVER_TRY(
            gemm(h, op, CUBLAS_OP_N, k, n, k, one<T>(), q.t, WIDTH, q.products, WIDTH, zero<T>(), q.more, WIDTH));
        return gemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, -one<T>(), q.v, m, q.more, WIDTH, one<T>(), c, ldc);
    }
    SOLVER_TRY(gemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, k, n, one<T>(), c, ldc, q.v, n, zero<T>(), q.products, m));
    SOLVER_TRY(gemm(h, CUBLAS_OP_N, op, m, k, k, one<T>(), q.products, m, q.t, WIDTH, zero<T>(), q.more, m));
    return gemm(h, CUBLAS_OP_N, CUBLAS_OP_C, m, n, k, -one<T>(), q.more, m, q.v, n, one<T>(), c, ldc);
}

template <class T> i64 qr_workspace(i64 m, i64 n)
{
    return joined<T>(nullptr, m, n).elements;
}
template <class T> status qr(handle h, i64 m, i64 n, T *a, i64 lda, T *tau, T *work, int *info)
{
    const i64 steps = least(m, n), width = n <= WIDTH ? n : WIDTH;
    if (steps == 0)
        return info ? status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream)) : CUSOLVER_STATUS_SUCCESS;
    for (i64 begin = 0; begin < steps; begin += width) {
        const i64 end = least(begin + width, n), right = n - end;
        const int k = (int)(least(end, steps) - begin);
        T *const panel = a + begin + begin * lda;
        reflect_panel<T><<<1, THREADS, 0, h->stream>>>(m - begin, (int)(end - begin), panel, lda, tau + begin, info);
        if (right == 0)
            break;
        const joined<T> made(work, m - begin, right);
        SOLVER_TRY(join(h, m - begin, k, panel, lda, tau + begin, made));
        SOLVER_TRY(apply(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_C, m - begin, right, k, made, a + begin + end * lda, lda));
    }
    return launched();
}

template <class T> i64 apply_q_workspace(cublasSideMode_t side, i64 m, i64 n, i64)
{
    return side == CUBLAS_SIDE_LEFT ? joined<T>(nullptr, m, n).elements : joined<T>(nullptr, n, m).elements;
}
template <class T>
status apply_q(handle h, cublasSideMode_t side, cublasOperation_t op, i64 m, i64 n, i64 k, const T *a, i64 lda,
               const T *tau, T *c, i64 ldc, T *work)
{
    const bool left = side == CUBLAS_SIDE_LEFT, forward = left == (op != CUBLAS_OP_N);
    const i64 order = left ? m : n, panels = ceiling(k, WIDTH);
    const cublasOperation_t turned = op == CUBLAS_OP_N ? CUBLAS_OP_N : CUBLAS_OP_C;
    for (i64 step = 0; step < panels && m > 0 && n > 0; step++) {
        const i64 begin = (forward ? step : panels - 1 - step) * WIDTH, rows = order - begin;
        const int width = (int)least(WIDTH, k - begin);
        const joined<T> made(work, rows, left ? n : m);
        SOLVER_TRY(join(h, rows, width, a + begin + begin * lda, lda, tau + begin, made));
        if (left)
            SOLVER_TRY(apply(h, side, turned, rows, n, width, made, c + begin, ldc));
        else
            SOLVER_TRY(apply(h, side, turned, m, rows, width, made, c + begin * ldc, ldc));
    }
    return launched();
}
/* Columns of the identity, of which the first has its one in row `offset`. */
template <class T> __global__ void __launch_bounds__(THREADS) place_identity(i64 m, i64 n, i64 offset, T *a, i64 lda)
{
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < m)
        for (i64 j = blockIdx.y; j < n; j += gridDim.y)
            a[i + j * lda] = i == offset + j ? one<T>() : zero<T>();
}
template <class T> i64 make_q_workspace(i64 m, i64 n)
{
    return joined<T>(nullptr, m, n).elements;
}
/* The first n columns of the product of k reflectors, in their place. */
template <class T> status make_q(handle h, i64 m, i64 n, i64 k, T *a, i64 lda, const T *tau, T *work)
{
    if (n > k)
        place_identity<T><<<plane(m, n - k), THREADS, 0, h->stream>>>(m, n - k, k, a + k * lda, lda);
    for (i64 panel = ceiling(k, WIDTH) - 1; panel >= 0; panel--) {
        const i64 begin = panel * WIDTH, rows = m - begin;
        const int width = (int)least(WIDTH, k - begin);
        const joined<T> made(work, rows, n - begin);
        SOLVER_TRY(join(h, rows, width, a + begin + begin * lda, lda, tau + begin, made));
        place_identity<T><<<plane(m, width), THREADS, 0, h->stream>>>(m, width, begin, a + begin * lda, lda);
        SOLVER_TRY(apply(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, rows, n - begin, width, made, a + begin + begin * lda, lda));
    }
    return launched();
}
} // namespace solver

/* The API's functions for one type of numbers; the last ones are named after orthogonal or unitary matrices. */
#define SOLVER_QR_OF(T)                                                                                                \
    template i64 solver::qr_workspace<T>(i64, i64);                                                                    \
    template status solver::qr<T>(handle, i64, i64, T *, i64, T *, T *, int *);                                        \
    template i64 solver::apply_q_workspace<T>(cublasSideMode_t, i64, i64, i64);                                        \
    template status solver::apply_q<T>(handle, cublasSideMode_t, cublasOperation_t, i64, i64, i64, const T *, i64,     \
                                       const T *, T *, i64, T *);                                                      \
    template i64 solver::make_q_workspace<T>(i64, i64);                                                                \
    template status solver::make_q<T>(handle, i64, i64, i64, T *, i64, const T *, T *);
#define SOLVER_QR(S, apply, make, T)                                                                                   \
    using namespace solver;                                                                                            \
    SOLVER_QR_OF(inside<T>::type)                                                                                      \
    status cusolverDn##S##geqrf_bufferSize(handle h, int m, int n, T *, int lda, int *size)                            \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= 0 && n >= 0 && is_leading(lda, m) && size);                                                  \
        *size = (int)qr_workspace<inside<T>::type>(m, n);                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##geqrf(handle h, int m, int n, T *a, int lda, T *tau, T *work, int size, int *info)           \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= 0 && n >= 0 && is_leading(lda, m) && size >= qr_workspace<inside<T>::type>(m, n) && work &&  \
                     info);                                                                                            \
        return qr(h, m, n, in(a), lda, in(tau), in(work), info);                                                       \
    }                                                                                                                  \
    status cusolverDn##S##apply##_bufferSize(handle h, cublasSideMode_t side, cublasOperation_t op, int m, int n,      \
                                             int k, const T *, int lda, const T *, const T *, int ldc, int *size)      \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_mqr<T>(side, op, m, n, k, lda, ldc) && size);                                                  \
        *size = (int)apply_q_workspace<inside<T>::type>(side, m, n, k);                                                \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##apply(handle h, cublasSideMode_t side, cublasOperation_t op, int m, int n, int k,            \
                                const T *a, int lda, const T *tau, T *c, int ldc, T *work, int size, int *info)        \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(is_mqr<T>(side, op, m, n, k, lda, ldc) && work && info &&                                         \
                     size >= apply_q_workspace<inside<T>::type>(side, m, n, k));                                       \
        SOLVER_TRY(apply_q(h, side, op, m, n, k, in(a), lda, in(tau), in(c), ldc, in(work)));                          \
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));                                            \
    }                                                                                                                  \
    status cusolverDn##S##make##_bufferSize(handle h, int m, int n, int k, const T *, int lda, const T *, int *size)   \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(n >= 0 && m >= n && k >= 0 && k <= n && is_leading(lda, m) && size);                              \
        *size = (int)make_q_workspace<inside<T>::type>(m, n);                                                          \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##S##make(handle h, int m, int n, int k, T *a, int lda, const T *tau, T *work, int size,          \
                               int *info)                                                                              \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(n >= 0 && m >= n && k >= 0 && k <= n && is_leading(lda, m) && work && info &&                     \
                     size >= make_q_workspace<inside<T>::type>(m, n));                                                 \
        SOLVER_TRY(make_q(h, m, n, k, in(a), lda, in(tau), in(work)));                                                 \
        return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));                                            \
    }
