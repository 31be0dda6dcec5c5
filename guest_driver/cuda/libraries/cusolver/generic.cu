/* Functions of the 64-bit API, whose types of numbers are told at run time, and those of the API with refinement. */
#include <new>

#include "families.h"

using namespace solver;

struct cusolverDnParams {
    cusolverAlgMode_t modes[2];
};

status cusolverDnCreateParams(cusolverDnParams_t *made)
{
    SOLVER_CHECK(made);
    *made = new (std::nothrow) cusolverDnParams{{CUSOLVER_ALG_0, CUSOLVER_ALG_0}};
    return *made ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
status cusolverDnDestroyParams(cusolverDnParams_t parameters)
{
    SOLVER_CHECK(parameters);
    delete parameters;
    return CUSOLVER_STATUS_SUCCESS;
}
/* There is one algorithm for each function. */
status cusolverDnSetAdvOptions(cusolverDnParams_t parameters, cusolverDnFunction_t function, cusolverAlgMode_t mode)
{
    SOLVER_CHECK(parameters && (function == CUSOLVERDN_GETRF || function == CUSOLVERDN_POTRF) &&
                 mode >= CUSOLVER_ALG_0 && mode <= CUSOLVER_ALG_2);
    parameters->modes[function] = mode;
    return CUSOLVER_STATUS_SUCCESS;
}

namespace
{
/* Calls work with a number of the type; all types of a call go together. */
template <class Work> status with_type(cudaDataType type, cudaDataType compute, Work work)
{
    SOLVER_CHECK(type == compute);
    switch (type) {
    case CUDA_R_32F:
        return work(float{});
    case CUDA_R_64F:
        return work(double{});
    case CUDA_C_32F:
        return work(complex<float>{});
    case CUDA_C_64F:
        return work(complex<double>{});
    default:
        return CUSOLVER_STATUS_INVALID_VALUE;
    }
}
cudaDataType real_type(cudaDataType type)
{
    return type == CUDA_C_32F ? CUDA_R_32F : type == CUDA_C_64F ? CUDA_R_64F : type;
}
status tell(size_t *device, size_t *host, size_t bytes)
{
    SOLVER_CHECK(device && host);
    *device = bytes;
    *host = 0;
    return CUSOLVER_STATUS_SUCCESS;
}
status done(handle h, int *info)
{
    return status_of(cudaMemsetAsync(info, 0, sizeof(int), h->stream));
}
} // namespace

#define MATRIX(n_rows, ld) (n_rows >= 0 && is_leading(ld, n_rows))

status cusolverDnXpotrf_bufferSize(handle h, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, cudaDataType type,
                                   const void *, int64_t lda, cudaDataType compute, size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && MATRIX(n, lda));
    return with_type(type, compute, [&](auto) { return tell(device, host, 0); });
}
status cusolverDnXpotrf(handle h, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, cudaDataType type, void *a,
                        int64_t lda, cudaDataType compute, void *, size_t, void *, size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && MATRIX(n, lda) && info);
    return with_type(type, compute,
                     [&](auto number) { return cholesky(h, fill, n, (decltype(number) *)a, lda, info); });
}
status cusolverDnXpotrs(handle h, cusolverDnParams_t, cublasFillMode_t fill, int64_t n, int64_t nrhs, cudaDataType type,
                        const void *a, int64_t lda, cudaDataType type_b, void *b, int64_t ldb, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && MATRIX(n, lda) && MATRIX(n, ldb) && nrhs >= 0 && info);
    const bool lower = fill == CUBLAS_FILL_MODE_LOWER;
    return with_type(type, type_b, [&](auto number) -> status {
        typedef decltype(number) T;
        const triangle first{fill, lower ? CUBLAS_OP_N : CUBLAS_OP_C, false};
        const triangle second{fill, lower ? CUBLAS_OP_C : CUBLAS_OP_N, false};
        SOLVER_TRY(solve_triangle(h, first, n, nrhs, (const T *)a, lda, (T *)b, ldb));
        SOLVER_TRY(solve_triangle(h, second, n, nrhs, (const T *)a, lda, (T *)b, ldb));
        return done(h, info);
    });
}
status cusolverDnXgetrf_bufferSize(handle h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, const void *,
                                   int64_t lda, cudaDataType compute, size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(MATRIX(m, lda) && n >= 0);
    return with_type(type, compute, [&](auto) { return tell(device, host, 0); });
}
status cusolverDnXgetrf(handle h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void *a, int64_t lda,
                        int64_t *pivots, cudaDataType compute, void *, size_t, void *, size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(MATRIX(m, lda) && n >= 0 && info);
    return with_type(type, compute, [&](auto number) { return lu(h, m, n, (decltype(number) *)a, lda, pivots, info); });
}
status cusolverDnXgetrs(handle h, cusolverDnParams_t, cublasOperation_t op, int64_t n, int64_t nrhs, cudaDataType type,
                        const void *a, int64_t lda, const int64_t *pivots, cudaDataType type_b, void *b, int64_t ldb,
                        int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_operation(op) && MATRIX(n, lda) && MATRIX(n, ldb) && nrhs >= 0 && info);
    return with_type(type, type_b, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_TRY(lu_solve(h, op, n, nrhs, (const T *)a, lda, pivots, (T *)b, ldb));
        return done(h, info);
    });
}
status cusolverDnXgeqrf_bufferSize(handle h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, const void *,
                                   int64_t lda, cudaDataType type_tau, const void *, cudaDataType compute,
                                   size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(MATRIX(m, lda) && n >= 0 && type_tau == type);
    return with_type(type, compute, [&](auto number) {
        return tell(device, host, qr_workspace<decltype(number)>(m, n) * sizeof number);
    });
}
status cusolverDnXgeqrf(handle h, cusolverDnParams_t, int64_t m, int64_t n, cudaDataType type, void *a, int64_t lda,
                        cudaDataType type_tau, void *tau, cudaDataType compute, void *work, size_t bytes, void *,
                        size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(MATRIX(m, lda) && n >= 0 && type_tau == type && work && info);
    return with_type(type, compute, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_CHECK(bytes >= qr_workspace<T>(m, n) * sizeof(T));
        return qr(h, m, n, (T *)a, lda, (T *)tau, (T *)work, info);
    });
}
status cusolverDnXsyevd_bufferSize(handle h, cusolverDnParams_t, cusolverEigMode_t mode, cublasFillMode_t fill,
                                   int64_t n, cudaDataType type, const void *, int64_t lda, cudaDataType type_w,
                                   const void *, cudaDataType compute, size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && MATRIX(n, lda) && type_w == real_type(type));
    return with_type(type, compute, [&](auto number) {
        return tell(device, host, eigen_workspace<decltype(number)>(mode, n) * sizeof number);
    });
}
status cusolverDnXsyevd(handle h, cusolverDnParams_t, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n,
                        cudaDataType type, void *a, int64_t lda, cudaDataType type_w, void *w, cudaDataType compute,
                        void *work, size_t bytes, void *, size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && MATRIX(n, lda) && type_w == real_type(type) && work && info);
    return with_type(type, compute, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_CHECK(bytes >= eigen_workspace<T>(mode, n) * sizeof(T));
        return eigen(h, mode, fill, n, (T *)a, lda, (real_of<T> *)w, (T *)work, info);
    });
}
/* Matrices that lie one behind the other, one after the other in the same memory. */
status cusolverDnXsyevBatched_bufferSize(handle h, cusolverDnParams_t params, cusolverEigMode_t mode,
                                         cublasFillMode_t fill, int64_t n, cudaDataType type, const void *a,
                                         int64_t lda, cudaDataType type_w, const void *w, cudaDataType compute,
                                         size_t *device, size_t *host, int64_t count)
{
    SOLVER_CHECK(count >= 0);
    return cusolverDnXsyevd_bufferSize(h, params, mode, fill, n, type, a, lda, type_w, w, compute, device, host);
}
status cusolverDnXsyevBatched(handle h, cusolverDnParams_t, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n,
                              cudaDataType type, void *a, int64_t lda, cudaDataType type_w, void *w,
                              cudaDataType compute, void *work, size_t bytes, void *, size_t, int *info, int64_t count)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_vector_mode(mode) && is_fill(fill) && MATRIX(n, lda) && type_w == real_type(type) && count >= 0 &&
                 (count == 0 || (work && info)));
    return with_type(type, compute, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_CHECK(count == 0 || bytes >= eigen_workspace<T>(mode, n) * sizeof(T));
        status failed = CUSOLVER_STATUS_SUCCESS;
        for (int64_t i = 0; i < count && failed == CUSOLVER_STATUS_SUCCESS; i++)
            failed = eigen(h, mode, fill, n, (T *)a + i * lda * n, lda, (real_of<T> *)w + i * n, (T *)work, info + i);
        return failed;
    });
}
status cusolverDnXgesvd_bufferSize(handle h, cusolverDnParams_t, signed char jobu, signed char jobvt, int64_t m,
                                   int64_t n, cudaDataType type, const void *, int64_t lda, cudaDataType type_s,
                                   const void *, cudaDataType type_u, const void *, int64_t ldu, cudaDataType type_vt,
                                   const void *, int64_t ldvt, cudaDataType compute, size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_gesvd(jobu, jobvt, m, n, lda, ldu, ldvt) && type_s == real_type(type) && type_u == type &&
                 type_vt == type);
    return with_type(type, compute, [&](auto number) {
        return tell(device, host, gesvd_workspace<decltype(number)>(m, n) * sizeof number);
    });
}
status cusolverDnXgesvd(handle h, cusolverDnParams_t, signed char jobu, signed char jobvt, int64_t m, int64_t n,
                        cudaDataType type, void *a, int64_t lda, cudaDataType type_s, void *s, cudaDataType type_u,
                        void *u, int64_t ldu, cudaDataType type_vt, void *vt, int64_t ldvt, cudaDataType compute,
                        void *work, size_t bytes, void *, size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_gesvd(jobu, jobvt, m, n, lda, ldu, ldvt) && type_s == real_type(type) && type_u == type &&
                 type_vt == type && work && info);
    return with_type(type, compute, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_CHECK(bytes >= gesvd_workspace<T>(m, n) * sizeof(T));
        return gesvd(h, jobu, jobvt, m, n, (T *)a, lda, (real_of<T> *)s, (T *)u, ldu, (T *)vt, ldvt, (T *)work, info);
    });
}
status cusolverDnXtrtri_bufferSize(handle h, cublasFillMode_t fill, cublasDiagType_t diagonal, int64_t n,
                                   cudaDataType type, void *, int64_t lda, size_t *device, size_t *host)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && (diagonal == CUBLAS_DIAG_UNIT || diagonal == CUBLAS_DIAG_NON_UNIT) && MATRIX(n, lda));
    return with_type(type, type, [&](auto number) { return tell(device, host, most(n * n, 1) * sizeof number); });
}
/* The solution for the columns of the identity, of which the triangle is kept. */
status cusolverDnXtrtri(handle h, cublasFillMode_t fill, cublasDiagType_t diagonal, int64_t n, cudaDataType type,
                        void *a, int64_t lda, void *work, size_t bytes, void *, size_t, int *info)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(is_fill(fill) && (diagonal == CUBLAS_DIAG_UNIT || diagonal == CUBLAS_DIAG_NON_UNIT) &&
                 MATRIX(n, lda) && work && info);
    return with_type(type, type, [&](auto number) -> status {
        typedef decltype(number) T;
        SOLVER_CHECK(bytes >= most(n * n, 1) * sizeof(T));
        const bool unit = diagonal == CUBLAS_DIAG_UNIT;
        const part kept = fill == CUBLAS_FILL_MODE_LOWER ? unit ? BELOW_PART : LOWER_PART
                          : unit                         ? ABOVE_PART
                                                         : UPPER_PART;
        SOLVER_TRY(unit ? done(h, info) : find_zero(h, n, (const T *)a, lda, info));
        SOLVER_TRY(set_identity(h, n, n, (T *)work, most(n, 1)));
        SOLVER_TRY(solve_triangle(h, {fill, CUBLAS_OP_N, unit}, n, n, (const T *)a, lda, (T *)work, most(n, 1)));
        return copy_matrix(h, CUBLAS_OP_N, kept, n, n, (const T *)work, most(n, 1), (T *)a, lda);
    });
}

/* ---- systems with refinement of solutions in a lower precision: here they are solved in the full one ---- */

namespace
{
template <class T> size_t gesv_workspace(i64 n)
{
    workspace memory{nullptr, 0};
    memory.take<T>(n * n);
    return memory.used + 32;
}
template <class T>
status gesv(handle h, i64 n, i64 nrhs, const T *a, i64 lda, int *pivots, const T *b, i64 ldb, T *x, i64 ldx, void *work,
            int *info)
{
    T *const factor = workspace_of(work).take<T>(0);
    SOLVER_TRY(copy_matrix(h, CUBLAS_OP_N, WHOLE, n, n, a, lda, factor, n));
    SOLVER_TRY(lu(h, n, n, factor, n, pivots, info));
    SOLVER_TRY(copy_matrix(h, CUBLAS_OP_N, WHOLE, n, nrhs, b, ldb, x, ldx));
    return lu_solve(h, CUBLAS_OP_N, n, nrhs, (const T *)factor, n, (const int *)pivots, x, ldx);
}
template <class T> struct gels_memory {
    T *factor, *right, *tau, *more;
    size_t bytes;
};
template <class T> gels_memory<T> gels_memory_of(void *work, i64 m, i64 n, i64 nrhs)
{
    workspace memory = workspace_of(work);
    gels_memory<T> made{};
    made.factor = memory.take<T>(m * n);
    made.right = memory.take<T>(m * nrhs);
    made.tau = memory.take<T>(n);
    made.more =
        memory.take<T>(most(qr_workspace<T>(m, n), apply_q_workspace<T>(CUBLAS_SIDE_LEFT, m, most(nrhs, 1), n)));
    made.bytes = memory.used + 32;
    return made;
}
/* The least squares solution of tall systems. */
template <class T>
status gels(handle h, i64 m, i64 n, i64 nrhs, const T *a, i64 lda, const T *b, i64 ldb, T *x, i64 ldx, void *work,
            int *info)
{
    const gels_memory<T> memory = gels_memory_of<T>(work, m, n, nrhs);
    SOLVER_TRY(copy_matrix(h, CUBLAS_OP_N, WHOLE, m, n, a, lda, memory.factor, m));
    SOLVER_TRY(copy_matrix(h, CUBLAS_OP_N, WHOLE, m, nrhs, b, ldb, memory.right, m));
    SOLVER_TRY(qr(h, m, n, memory.factor, m, memory.tau, memory.more, info));
    SOLVER_TRY(find_zero(h, n, (const T *)memory.factor, m, info));
    SOLVER_TRY(apply_q(h, CUBLAS_SIDE_LEFT, CUBLAS_OP_C, m, nrhs, n, (const T *)memory.factor, m, (const T *)memory.tau,
                       memory.right, m, memory.more));
    SOLVER_TRY(solve_triangle(h, {CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, false}, n, nrhs, (const T *)memory.factor, m,
                              memory.right, m));
    return copy_matrix(h, CUBLAS_OP_N, WHOLE, n, nrhs, (const T *)memory.right, m, x, ldx);
}
} // namespace

#define SOLVER_REFINED(name, T)                                                                                        \
    status cusolverDn##name##gesv_bufferSize(handle h, int n, int nrhs, T *, int lda, int *, T *, int ldb, T *,        \
                                             int ldx, void *, size_t *bytes)                                           \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(MATRIX(n, lda) && MATRIX(n, ldb) && MATRIX(n, ldx) && nrhs >= 0 && bytes);                        \
        *bytes = gesv_workspace<N>(n);                                                                                 \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##name##gesv(handle h, int n, int nrhs, T *a, int lda, int *pivots, T *b, int ldb, T *x, int ldx, \
                                  void *work, size_t bytes, int *rounds, int *info)                                    \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(MATRIX(n, lda) && MATRIX(n, ldb) && MATRIX(n, ldx) && nrhs >= 0 && pivots && work && rounds &&    \
                     info && bytes >= gesv_workspace<N>(n));                                                           \
        *rounds = 0;                                                                                                   \
        return gesv<N>(h, n, nrhs, (N *)a, lda, pivots, (N *)b, ldb, (N *)x, ldx, work, info);                         \
    }                                                                                                                  \
    status cusolverDn##name##gels_bufferSize(handle h, int m, int n, int nrhs, T *, int lda, T *, int ldb, T *,        \
                                             int ldx, void *, size_t *bytes)                                           \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= n && MATRIX(m, lda) && MATRIX(m, ldb) && MATRIX(n, ldx) && nrhs >= 0 && bytes);              \
        *bytes = gels_memory_of<N>(nullptr, m, n, nrhs).bytes;                                                         \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDn##name##gels(handle h, int m, int n, int nrhs, T *a, int lda, T *b, int ldb, T *x, int ldx,       \
                                  void *work, size_t bytes, int *rounds, int *info)                                    \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(m >= n && MATRIX(m, lda) && MATRIX(m, ldb) && MATRIX(n, ldx) && nrhs >= 0 && work && rounds &&    \
                     info && bytes >= gels_memory_of<N>(nullptr, m, n, nrhs).bytes);                                   \
        *rounds = 0;                                                                                                   \
        return gels<N>(h, m, n, nrhs, (N *)a, lda, (N *)b, ldb, (N *)x, ldx, work, info);                              \
    }
#define N float
SOLVER_REFINED(SS, float)
SOLVER_REFINED(SH, float)
SOLVER_REFINED(SB, float)
SOLVER_REFINED(SX, float)
#undef N
#define N double
SOLVER_REFINED(DD, double)
SOLVER_REFINED(DS, double)
SOLVER_REFINED(DH, double)
SOLVER_REFINED(DB, double)
SOLVER_REFINED(DX, double)
#undef N
#define N complex<float>
SOLVER_REFINED(CC, cuComplex)
SOLVER_REFINED(CK, cuComplex)
SOLVER_REFINED(CE, cuComplex)
SOLVER_REFINED(CY, cuComplex)
#undef N
#define N complex<double>
SOLVER_REFINED(ZZ, cuDoubleComplex)
SOLVER_REFINED(ZC, cuDoubleComplex)
SOLVER_REFINED(ZK, cuDoubleComplex)
SOLVER_REFINED(ZE, cuDoubleComplex)
SOLVER_REFINED(ZY, cuDoubleComplex)
