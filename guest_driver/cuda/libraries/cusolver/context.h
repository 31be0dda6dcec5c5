/* A handle of the dense functions, and what all of them do with it. */
#pragma once
#include <cusolverDn.h>
#include <stdint.h>

#include "numbers.h"

struct cusolverDnContext {
    uint32_t magic;
    cudaStream_t stream;
    cublasHandle_t blas; /* works in the same stream */
    cusolverDeterministicMode_t mode;
};

namespace solver
{
constexpr uint32_t MAGIC = 0x564c4f53;
constexpr int THREADS = 128; /* of a block that works on a vector or a panel */

typedef cusolverStatus_t status;
typedef cusolverDnHandle_t handle;

static inline bool is_handle(handle h)
{
    return h && h->magic == MAGIC;
}
static inline status status_of(cudaError_t error)
{
    return error == cudaSuccess                 ? CUSOLVER_STATUS_SUCCESS
           : error == cudaErrorMemoryAllocation ? CUSOLVER_STATUS_ALLOC_FAILED
                                                : CUSOLVER_STATUS_EXECUTION_FAILED;
}
static inline status status_of(cublasStatus_t error)
{
    return error == CUBLAS_STATUS_SUCCESS        ? CUSOLVER_STATUS_SUCCESS
           : error == CUBLAS_STATUS_ALLOC_FAILED ? CUSOLVER_STATUS_ALLOC_FAILED
                                                 : CUSOLVER_STATUS_EXECUTION_FAILED;
}
/* Whether the launches before it were accepted. */
static inline status launched()
{
    return status_of(cudaGetLastError());
}
static inline i64 ceiling(i64 a, i64 b)
{
    return (a + b - 1) / b;
}
BLAS_BOTH i64 least(i64 a, i64 b)
{
    return a < b ? a : b;
}
BLAS_BOTH i64 most(i64 a, i64 b)
{
    return a > b ? a : b;
}
static inline bool is_fill(cublasFillMode_t fill)
{
    return fill == CUBLAS_FILL_MODE_LOWER || fill == CUBLAS_FILL_MODE_UPPER;
}
static inline bool is_operation(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}
static inline bool is_side(cublasSideMode_t side)
{
    return side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT;
}
static inline bool is_vector_mode(cusolverEigMode_t mode)
{
    return mode == CUSOLVER_EIG_MODE_VECTOR || mode == CUSOLVER_EIG_MODE_NOVECTOR;
}
static inline bool is_leading(i64 ld, i64 rows)
{
    return ld >= most(rows, 1);
}

/* C = alpha op(A) op(B) + beta C by cuBLAS. */
#define SOLVER_GEMM(S, T, API)                                                                                         \
    static inline status gemm(handle h, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n, i64 k, T alpha,    \
                              const T *a, i64 lda, const T *b, i64 ldb, T beta, T *c, i64 ldc)                         \
    {                                                                                                                  \
        if (m == 0 || n == 0)                                                                                          \
            return CUSOLVER_STATUS_SUCCESS;                                                                            \
        return status_of(cublas##S##gemm_64(h->blas, opa, opb, m, n, k, (const API *)&alpha, (const API *)a, lda,      \
                                            (const API *)b, ldb, (const API *)&beta, (API *)c, ldc));                  \
    }
SOLVER_GEMM(S, float, float)
SOLVER_GEMM(D, double, double)
SOLVER_GEMM(C, complex<float>, cuComplex)
SOLVER_GEMM(Z, complex<double>, cuDoubleComplex)

/* A matrix, whose element (i, j) lies i * row + j * column behind the first: so a transposed one is one, too. */
template <class T> struct view {
    T *first;
    i64 row, column;
    __host__ __device__ T &operator()(i64 i, i64 j) const
    {
        return first[i * row + j * column];
    }
    __host__ __device__ view at(i64 i, i64 j) const
    {
        return {first + i * row + j * column, row, column};
    }
};
/* The lower triangle: that of the matrix, or the transposed upper one. */
template <class T> static inline view<T> lower_of(cublasFillMode_t fill, T *a, i64 lda)
{
    return fill == CUBLAS_FILL_MODE_LOWER ? view<T>{a, 1, lda} : view<T>{a, lda, 1};
}
/* Matrices of a batch: by a table of pointers, or `jump` elements apart. */
template <class T> struct batch {
    T *first;
    T *const *table;
    i64 jump;
    __host__ __device__ T *operator[](i64 z) const
    {
        return table ? table[z] : first + z * jump;
    }
};
static inline dim3 plane(i64 rows, i64 columns)
{
    return dim3((unsigned)ceiling(rows, THREADS), (unsigned)least(most(columns, 1), 65535));
}
/* An array in the caller's workspace: each begins where the one before ends, and is aligned. */
struct workspace {
    char *base;
    size_t used;
    template <class T> T *take(i64 count)
    {
        T *const taken = (T *)(base + used);
        used += ((size_t)count * sizeof(T) + 15) / 16 * 16;
        return taken;
    }
    /* In elements of T. */
    template <class T> i64 elements() const
    {
        return (i64)((used + sizeof(T) - 1) / sizeof(T)) + 16 / (i64)sizeof(T);
    }
};
/* The caller's workspace need not be aligned to more than its elements are. */
static inline workspace workspace_of(void *work)
{
    return {(char *)(((uintptr_t)work + 15) / 16 * 16), 0};
}
} // namespace solver

#define SOLVER_CHECK_HANDLE(h)                                                                                         \
    if (!solver::is_handle(h))                                                                                         \
    return CUSOLVER_STATUS_NOT_INITIALIZED
#define SOLVER_CHECK(condition)                                                                                        \
    if (!(condition))                                                                                                  \
    return CUSOLVER_STATUS_INVALID_VALUE
#define SOLVER_TRY(call)                                                                                               \
    do {                                                                                                               \
        if (const cusolverStatus_t error_of_call = (call))                                                             \
            return error_of_call;                                                                                      \
    } while (0)
