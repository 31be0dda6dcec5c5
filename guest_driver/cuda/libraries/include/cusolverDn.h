/* cuSOLVER for dense matrices, column-major: what is implemented, and nothing else. Values as published.
 *
 * Functions work in the handle's stream. `info` lies on the device: 0, or the number of the pivot, minor or vector at
 * which a decomposition failed. Workspaces are those of the functions that end in _bufferSize, in elements. */
#pragma once
#define CUSOLVERDN_H_
#include "cublas_v2.h"
#include "cusolver_common.h"
#include <cuComplex.h>
#include <stdint.h>

typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct gesvdjInfo *gesvdjInfo_t;
typedef struct syevjInfo *syevjInfo_t;
typedef struct cusolverDnParams *cusolverDnParams_t;
typedef enum { CUSOLVERDN_GETRF = 0, CUSOLVERDN_POTRF = 1 } cusolverDnFunction_t;

#ifdef __cplusplus
extern "C" {
#endif
#define VGC_SOLVER CUSOLVERAPI cusolverStatus_t

VGC_SOLVER cusolverDnCreate(cusolverDnHandle_t *handle);
VGC_SOLVER cusolverDnDestroy(cusolverDnHandle_t handle);
VGC_SOLVER cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
VGC_SOLVER cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream);
VGC_SOLVER cusolverDnSetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t mode);
VGC_SOLVER cusolverDnGetDeterministicMode(cusolverDnHandle_t handle, cusolverDeterministicMode_t *mode);

/* ---- linear systems: Cholesky, LU; QR ---- */

#define VGC_SOLVER_LINEAR(S, T)                                                                                        \
    VGC_SOLVER cusolverDn##S##potrf_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a, int lda, \
                                               int *size);                                                             \
    VGC_SOLVER cusolverDn##S##potrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a, int lda, T *work,   \
                                    int size, int *info);                                                              \
    VGC_SOLVER cusolverDn##S##potrs(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, int nrhs, const T *a,     \
                                    int lda, T *b, int ldb, int *info);                                                \
    VGC_SOLVER cusolverDn##S##potri_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a, int lda, \
                                               int *size);                                                             \
    VGC_SOLVER cusolverDn##S##potri(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a, int lda, T *work,   \
                                    int size, int *info);                                                              \
    VGC_SOLVER cusolverDn##S##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a[], int lda,   \
                                           int *infos, int count);                                                     \
    VGC_SOLVER cusolverDn##S##potrsBatched(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, int nrhs, T *a[],  \
                                           int lda, T *b[], int ldb, int *info, int count);                            \
    VGC_SOLVER cusolverDn##S##getrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T *a, int lda, int *size);     \
    VGC_SOLVER cusolverDn##S##getrf(cusolverDnHandle_t handle, int m, int n, T *a, int lda, T *work, int *pivots,      \
                                    int *info);                                                                        \
    VGC_SOLVER cusolverDn##S##getrs(cusolverDnHandle_t handle, cublasOperation_t op, int n, int nrhs, const T *a,      \
                                    int lda, const int *pivots, T *b, int ldb, int *info);                             \
    VGC_SOLVER cusolverDn##S##laswp(cusolverDnHandle_t handle, int n, T *a, int lda, int k1, int k2,                   \
                                    const int *pivots, int step);                                                      \
    VGC_SOLVER cusolverDn##S##sytrf_bufferSize(cusolverDnHandle_t handle, int n, T *a, int lda, int *size);            \
    VGC_SOLVER cusolverDn##S##sytrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n, T *a, int lda,            \
                                    int *pivots, T *work, int size, int *info);                                        \
    VGC_SOLVER cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T *a, int lda, int *size);     \
    VGC_SOLVER cusolverDn##S##geqrf(cusolverDnHandle_t handle, int m, int n, T *a, int lda, T *tau, T *work, int size, \
                                    int *info);                                                                        \
    VGC_SOLVER cusolverDn##S##gebrd_bufferSize(cusolverDnHandle_t handle, int m, int n, int *size);
VGC_SOLVER_LINEAR(S, float)
VGC_SOLVER_LINEAR(D, double)
VGC_SOLVER_LINEAR(C, cuComplex)
VGC_SOLVER_LINEAR(Z, cuDoubleComplex)

#define VGC_SOLVER_Q(name, T)                                                                                          \
    VGC_SOLVER cusolverDn##name##mqr_bufferSize(cusolverDnHandle_t handle, cublasSideMode_t side,                      \
                                                cublasOperation_t op, int m, int n, int k, const T *a, int lda,        \
                                                const T *tau, const T *c, int ldc, int *size);                         \
    VGC_SOLVER cusolverDn##name##mqr(cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t op, int m,    \
                                     int n, int k, const T *a, int lda, const T *tau, T *c, int ldc, T *work,          \
                                     int size, int *info);                                                             \
    VGC_SOLVER cusolverDn##name##gqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const T *a, int lda,   \
                                                const T *tau, int *size);                                              \
    VGC_SOLVER cusolverDn##name##gqr(cusolverDnHandle_t handle, int m, int n, int k, T *a, int lda, const T *tau,      \
                                     T *work, int size, int *info);
VGC_SOLVER_Q(Sor, float)
VGC_SOLVER_Q(Dor, double)
VGC_SOLVER_Q(Cun, cuComplex)
VGC_SOLVER_Q(Zun, cuDoubleComplex)

/* ---- singular values and eigenvalues ---- */

#define VGC_SOLVER_JACOBI_INFO(Name, name)                                                                             \
    VGC_SOLVER cusolverDnCreate##Name##Info(name##Info_t *info);                                                       \
    VGC_SOLVER cusolverDnDestroy##Name##Info(name##Info_t info);                                                       \
    VGC_SOLVER cusolverDnX##name##SetTolerance(name##Info_t info, double tolerance);                                   \
    VGC_SOLVER cusolverDnX##name##SetMaxSweeps(name##Info_t info, int sweeps);                                         \
    VGC_SOLVER cusolverDnX##name##SetSortEig(name##Info_t info, int sorts);                                            \
    VGC_SOLVER cusolverDnX##name##GetResidual(cusolverDnHandle_t handle, name##Info_t info, double *residual);         \
    VGC_SOLVER cusolverDnX##name##GetSweeps(cusolverDnHandle_t handle, name##Info_t info, int *sweeps);
VGC_SOLVER_JACOBI_INFO(Gesvdj, gesvdj)
VGC_SOLVER_JACOBI_INFO(Syevj, syevj)

/* Bidiagonal forms: refused (absent.cpp). */
#define VGC_SOLVER_BIDIAGONAL(S, T, R)                                                                                 \
    VGC_SOLVER cusolverDn##S##gebrd(cusolverDnHandle_t handle, int m, int n, T *a, int lda, R *d, R *e, T *tau_q,      \
                                    T *tau_p, T *work, int size, int *info);
VGC_SOLVER_BIDIAGONAL(S, float, float)
VGC_SOLVER_BIDIAGONAL(D, double, double)
VGC_SOLVER_BIDIAGONAL(C, cuComplex, float)
VGC_SOLVER_BIDIAGONAL(Z, cuDoubleComplex, double)

#define VGC_SOLVER_SINGULAR(S, T, R)                                                                                   \
    VGC_SOLVER cusolverDn##S##gesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int *size);                    \
    VGC_SOLVER cusolverDn##S##gesvd(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n,      \
                                    T *a, int lda, R *s, T *u, int ldu, T *vt, int ldvt, T *work, int size, R *rwork,  \
                                    int *info);                                                                        \
    VGC_SOLVER cusolverDn##S##gesvdj_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode, int econ, int m,    \
                                                int n, const T *a, int lda, const R *s, const T *u, int ldu,           \
                                                const T *v, int ldv, int *size, gesvdjInfo_t parameters);              \
    VGC_SOLVER cusolverDn##S##gesvdj(cusolverDnHandle_t handle, cusolverEigMode_t mode, int econ, int m, int n, T *a,  \
                                     int lda, R *s, T *u, int ldu, T *v, int ldv, T *work, int size, int *info,        \
                                     gesvdjInfo_t parameters);                                                         \
    VGC_SOLVER cusolverDn##S##gesvdjBatched_bufferSize(                                                                \
        cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, const T *a, int lda, const R *s, const T *u,  \
        int ldu, const T *v, int ldv, int *size, gesvdjInfo_t parameters, int count);                                  \
    VGC_SOLVER cusolverDn##S##gesvdjBatched(cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, T *a,     \
                                            int lda, R *s, T *u, int ldu, T *v, int ldv, T *work, int size,            \
                                            int *infos, gesvdjInfo_t parameters, int count);                           \
    VGC_SOLVER cusolverDn##S##gesvdaStridedBatched_bufferSize(                                                         \
        cusolverDnHandle_t handle, cusolverEigMode_t mode, int rank, int m, int n, const T *a, int lda,                \
        long long int jump_a, const R *s, long long int jump_s, const T *u, int ldu, long long int jump_u, const T *v, \
        int ldv, long long int jump_v, int *size, int count);                                                          \
    VGC_SOLVER cusolverDn##S##gesvdaStridedBatched(                                                                    \
        cusolverDnHandle_t handle, cusolverEigMode_t mode, int rank, int m, int n, const T *a, int lda,                \
        long long int jump_a, R *s, long long int jump_s, T *u, int ldu, long long int jump_u, T *v, int ldv,          \
        long long int jump_v, T *work, int size, int *infos, double *residuals_of_host, int count);
VGC_SOLVER_SINGULAR(S, float, float)
VGC_SOLVER_SINGULAR(D, double, double)
VGC_SOLVER_SINGULAR(C, cuComplex, float)
VGC_SOLVER_SINGULAR(Z, cuDoubleComplex, double)

#define VGC_SOLVER_EIGEN(name, T, R)                                                                                   \
    VGC_SOLVER cusolverDn##name##evj_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode,                     \
                                                cublasFillMode_t fill, int n, const T *a, int lda, const R *w,         \
                                                int *size, syevjInfo_t parameters);                                    \
    VGC_SOLVER cusolverDn##name##evj(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n,  \
                                     T *a, int lda, R *w, T *work, int size, int *info, syevjInfo_t parameters);       \
    VGC_SOLVER cusolverDn##name##evjBatched_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode,              \
                                                       cublasFillMode_t fill, int n, const T *a, int lda, const R *w,  \
                                                       int *size, syevjInfo_t parameters, int count);                  \
    VGC_SOLVER cusolverDn##name##evjBatched(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill,  \
                                            int n, T *a, int lda, R *w, T *work, int size, int *infos,                 \
                                            syevjInfo_t parameters, int count);                                        \
    VGC_SOLVER cusolverDn##name##evd_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t mode,                     \
                                                cublasFillMode_t fill, int n, const T *a, int lda, const R *w,         \
                                                int *size);                                                            \
    VGC_SOLVER cusolverDn##name##evd(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t fill, int n,  \
                                     T *a, int lda, R *w, T *work, int size, int *info);                               \
    VGC_SOLVER cusolverDn##name##evdx_bufferSize(                                                                      \
        cusolverDnHandle_t handle, cusolverEigMode_t mode, cusolverEigRange_t range, cublasFillMode_t fill, int n,     \
        const T *a, int lda, R low, R high, int first, int last, int *found, const R *w, int *size);                   \
    VGC_SOLVER cusolverDn##name##evdx(cusolverDnHandle_t handle, cusolverEigMode_t mode, cusolverEigRange_t range,     \
                                      cublasFillMode_t fill, int n, T *a, int lda, R low, R high, int first, int last, \
                                      int *found, R *w, T *work, int size, int *info);                                 \
    VGC_SOLVER cusolverDn##name##gvd_bufferSize(cusolverDnHandle_t handle, cusolverEigType_t type,                     \
                                                cusolverEigMode_t mode, cublasFillMode_t fill, int n, const T *a,      \
                                                int lda, const T *b, int ldb, const R *w, int *size);                  \
    VGC_SOLVER cusolverDn##name##gvd(cusolverDnHandle_t handle, cusolverEigType_t type, cusolverEigMode_t mode,        \
                                     cublasFillMode_t fill, int n, T *a, int lda, T *b, int ldb, R *w, T *work,        \
                                     int size, int *info);                                                             \
    VGC_SOLVER cusolverDn##name##gvdx_bufferSize(                                                                      \
        cusolverDnHandle_t handle, cusolverEigType_t type, cusolverEigMode_t mode, cusolverEigRange_t range,           \
        cublasFillMode_t fill, int n, const T *a, int lda, const T *b, int ldb, R low, R high, int first, int last,    \
        int *found, const R *w, int *size);                                                                            \
    VGC_SOLVER cusolverDn##name##gvdx(cusolverDnHandle_t handle, cusolverEigType_t type, cusolverEigMode_t mode,       \
                                      cusolverEigRange_t range, cublasFillMode_t fill, int n, T *a, int lda, T *b,     \
                                      int ldb, R low, R high, int first, int last, int *found, R *w, T *work,          \
                                      int size, int *info);
VGC_SOLVER_EIGEN(Ssy, float, float)
VGC_SOLVER_EIGEN(Dsy, double, double)
VGC_SOLVER_EIGEN(Che, cuComplex, float)
VGC_SOLVER_EIGEN(Zhe, cuDoubleComplex, double)

/* ---- 64-bit functions: types of numbers are told at run time, and go together; workspaces in bytes ---- */

VGC_SOLVER cusolverDnCreateParams(cusolverDnParams_t *params);
VGC_SOLVER cusolverDnDestroyParams(cusolverDnParams_t params);
VGC_SOLVER cusolverDnSetAdvOptions(cusolverDnParams_t params, cusolverDnFunction_t function, cusolverAlgMode_t algo);

#define VGC_SOLVER_SIZES size_t *bytes_of_device, size_t *bytes_of_host
#define VGC_SOLVER_WORK void *work, size_t bytes, void *work_of_host, size_t bytes_of_host, int *info

#define VGC_SOLVER_X_POTRF                                                                                             \
    cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t fill, int64_t n, cudaDataType type_a
VGC_SOLVER cusolverDnXpotrf_bufferSize(VGC_SOLVER_X_POTRF, const void *a, int64_t lda, cudaDataType compute,
                                       VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXpotrf(VGC_SOLVER_X_POTRF, void *a, int64_t lda, cudaDataType compute, VGC_SOLVER_WORK);
VGC_SOLVER cusolverDnXpotrs(cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t fill, int64_t n,
                            int64_t nrhs, cudaDataType type_a, const void *a, int64_t lda, cudaDataType type_b, void *b,
                            int64_t ldb, int *info);
#define VGC_SOLVER_X_GENERAL                                                                                           \
    cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n, cudaDataType type_a
VGC_SOLVER cusolverDnXgetrf_bufferSize(VGC_SOLVER_X_GENERAL, const void *a, int64_t lda, cudaDataType compute,
                                       VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXgetrf(VGC_SOLVER_X_GENERAL, void *a, int64_t lda, int64_t *pivots, cudaDataType compute,
                            VGC_SOLVER_WORK);
VGC_SOLVER cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params, cublasOperation_t op, int64_t n,
                            int64_t nrhs, cudaDataType type_a, const void *a, int64_t lda, const int64_t *pivots,
                            cudaDataType type_b, void *b, int64_t ldb, int *info);
VGC_SOLVER cusolverDnXgeqrf_bufferSize(VGC_SOLVER_X_GENERAL, const void *a, int64_t lda, cudaDataType type_tau,
                                       const void *tau, cudaDataType compute, VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXgeqrf(VGC_SOLVER_X_GENERAL, void *a, int64_t lda, cudaDataType type_tau, void *tau,
                            cudaDataType compute, VGC_SOLVER_WORK);
#define VGC_SOLVER_X_EIGEN                                                                                             \
    cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t mode, cublasFillMode_t fill, int64_t n,    \
        cudaDataType type_a
VGC_SOLVER cusolverDnXsyevd_bufferSize(VGC_SOLVER_X_EIGEN, const void *a, int64_t lda, cudaDataType type_w,
                                       const void *w, cudaDataType compute, VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXsyevd(VGC_SOLVER_X_EIGEN, void *a, int64_t lda, cudaDataType type_w, void *w,
                            cudaDataType compute, VGC_SOLVER_WORK);
VGC_SOLVER cusolverDnXsyevBatched_bufferSize(VGC_SOLVER_X_EIGEN, const void *a, int64_t lda, cudaDataType type_w,
                                             const void *w, cudaDataType compute, VGC_SOLVER_SIZES, int64_t count);
VGC_SOLVER cusolverDnXsyevBatched(VGC_SOLVER_X_EIGEN, void *a, int64_t lda, cudaDataType type_w, void *w,
                                  cudaDataType compute, VGC_SOLVER_WORK, int64_t count);
#define VGC_SOLVER_X_SINGULAR                                                                                          \
    cusolverDnHandle_t handle, cusolverDnParams_t params, signed char jobu, signed char jobvt, int64_t m, int64_t n,   \
        cudaDataType type_a
VGC_SOLVER cusolverDnXgesvd_bufferSize(VGC_SOLVER_X_SINGULAR, const void *a, int64_t lda, cudaDataType type_s,
                                       const void *s, cudaDataType type_u, const void *u, int64_t ldu,
                                       cudaDataType type_vt, const void *vt, int64_t ldvt, cudaDataType compute,
                                       VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXgesvd(VGC_SOLVER_X_SINGULAR, void *a, int64_t lda, cudaDataType type_s, void *s,
                            cudaDataType type_u, void *u, int64_t ldu, cudaDataType type_vt, void *vt, int64_t ldvt,
                            cudaDataType compute, VGC_SOLVER_WORK);
#define VGC_SOLVER_X_TRIANGLE                                                                                          \
    cusolverDnHandle_t handle, cublasFillMode_t fill, cublasDiagType_t diagonal, int64_t n, cudaDataType type_a
VGC_SOLVER cusolverDnXtrtri_bufferSize(VGC_SOLVER_X_TRIANGLE, void *a, int64_t lda, VGC_SOLVER_SIZES);
VGC_SOLVER cusolverDnXtrtri(VGC_SOLVER_X_TRIANGLE, void *a, int64_t lda, VGC_SOLVER_WORK);

/* ---- systems and least squares: the lower precision that a name has is not used, solutions are those of the full one,
 * and `rounds`, which is the host's, is 0; A stays as it is ---- */

#define VGC_SOLVER_REFINED(name, T)                                                                                    \
    VGC_SOLVER cusolverDn##name##gesv_bufferSize(cusolverDnHandle_t handle, int n, int nrhs, T *a, int lda,            \
                                                 int *pivots, T *b, int ldb, T *x, int ldx, void *work,                \
                                                 size_t *bytes);                                                       \
    VGC_SOLVER cusolverDn##name##gesv(cusolverDnHandle_t handle, int n, int nrhs, T *a, int lda, int *pivots, T *b,    \
                                      int ldb, T *x, int ldx, void *work, size_t bytes, int *rounds, int *info);       \
    VGC_SOLVER cusolverDn##name##gels_bufferSize(cusolverDnHandle_t handle, int m, int n, int nrhs, T *a, int lda,     \
                                                 T *b, int ldb, T *x, int ldx, void *work, size_t *bytes);             \
    VGC_SOLVER cusolverDn##name##gels(cusolverDnHandle_t handle, int m, int n, int nrhs, T *a, int lda, T *b, int ldb, \
                                      T *x, int ldx, void *work, size_t bytes, int *rounds, int *info);
VGC_SOLVER_REFINED(SS, float)
VGC_SOLVER_REFINED(SH, float)
VGC_SOLVER_REFINED(SB, float)
VGC_SOLVER_REFINED(SX, float)
VGC_SOLVER_REFINED(DD, double)
VGC_SOLVER_REFINED(DS, double)
VGC_SOLVER_REFINED(DH, double)
VGC_SOLVER_REFINED(DB, double)
VGC_SOLVER_REFINED(DX, double)
VGC_SOLVER_REFINED(CC, cuComplex)
VGC_SOLVER_REFINED(CK, cuComplex)
VGC_SOLVER_REFINED(CE, cuComplex)
VGC_SOLVER_REFINED(CY, cuComplex)
VGC_SOLVER_REFINED(ZZ, cuDoubleComplex)
VGC_SOLVER_REFINED(ZC, cuDoubleComplex)
VGC_SOLVER_REFINED(ZK, cuDoubleComplex)
VGC_SOLVER_REFINED(ZE, cuDoubleComplex)
VGC_SOLVER_REFINED(ZY, cuDoubleComplex)

#undef VGC_SOLVER
#ifdef __cplusplus
}
#endif
