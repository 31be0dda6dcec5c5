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
    VGC_SOLVER cusolverDn##S##geqrf_bufferSize(cusolverDnHandle_t handle, int m, int n, T *a, int lda, int *size);     \
    VGC_SOLVER cusolverDn##S##geqrf(cusolverDnHandle_t handle, int m, int n, T *a, int lda, T *tau, T *work, int size, \
                                    int *info);
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

VGC_SOLVER cusolverDnCreateGesvdjInfo(gesvdjInfo_t *info);
VGC_SOLVER cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info);
VGC_SOLVER cusolverDnXgesvdjSetTolerance(gesvdjInfo_t info, double tolerance);
VGC_SOLVER cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t info, int sweeps);
VGC_SOLVER cusolverDnXgesvdjSetSortEig(gesvdjInfo_t info, int sorts);
VGC_SOLVER cusolverDnXgesvdjGetResidual(cusolverDnHandle_t handle, gesvdjInfo_t info, double *residual);
VGC_SOLVER cusolverDnXgesvdjGetSweeps(cusolverDnHandle_t handle, gesvdjInfo_t info, int *sweeps);

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

#undef VGC_SOLVER
#ifdef __cplusplus
}
#endif
