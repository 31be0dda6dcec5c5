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

#undef VGC_SOLVER
#ifdef __cplusplus
}
#endif
