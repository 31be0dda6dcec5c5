/* cuSOLVER's decompositions of sparse matrices in steps: what is implemented, and nothing else.
 *
 * Arrays of functions whose names end in Host lie on the host, those of the others on the device. Decompositions are
 * made by the processor of the guest in either case, and keep their memory themselves: buffers are asked for and left
 * alone. */
#pragma once
#define CUSOLVERSP_LOWLEVEL_PREVIEW_H_
#include "cusolverSp.h"

typedef struct csrluInfoHost *csrluInfoHost_t;
typedef struct csrqrInfoHost *csrqrInfoHost_t;
typedef struct csrcholInfoHost *csrcholInfoHost_t;
typedef struct csrcholInfo *csrcholInfo_t;

#ifdef __cplusplus
extern "C" {
#endif
#define VGC_SPARSE CUSOLVERAPI cusolverStatus_t
#define VGC_SPARSE_INFO(Name, name)                                                                                    \
    VGC_SPARSE cusolverSpCreate##Name(name##_t *info);                                                                 \
    VGC_SPARSE cusolverSpDestroy##Name(name##_t info);
VGC_SPARSE_INFO(CsrluInfoHost, csrluInfoHost)
VGC_SPARSE_INFO(CsrqrInfoHost, csrqrInfoHost)
VGC_SPARSE_INFO(CsrcholInfoHost, csrcholInfoHost)
VGC_SPARSE_INFO(CsrqrInfo, csrqrInfo)
VGC_SPARSE_INFO(CsrcholInfo, csrcholInfo)

#define VGC_SPARSE_PATTERN cusolverSpHandle_t handle, int n, int nnz, const cusparseMatDescr_t descriptor
#define VGC_SPARSE_PATTERN_QR cusolverSpHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t descriptor

VGC_SPARSE cusolverSpXcsrluAnalysisHost(VGC_SPARSE_PATTERN, const int *offsets, const int *columns,
                                        csrluInfoHost_t info);
VGC_SPARSE cusolverSpXcsrluNnzHost(cusolverSpHandle_t handle, int *nnz_l, int *nnz_u, csrluInfoHost_t info);
#define VGC_SPARSE_LU(S, T, R)                                                                                         \
    VGC_SPARSE cusolverSp##S##csrluBufferInfoHost(VGC_SPARSE_PATTERN, const T *values, const int *offsets,             \
                                                  const int *columns, csrluInfoHost_t info, size_t *internal,          \
                                                  size_t *buffer);                                                     \
    VGC_SPARSE cusolverSp##S##csrluFactorHost(VGC_SPARSE_PATTERN, const T *values, const int *offsets,                 \
                                              const int *columns, csrluInfoHost_t info, R threshold, void *buffer);    \
    VGC_SPARSE cusolverSp##S##csrluZeroPivotHost(cusolverSpHandle_t handle, csrluInfoHost_t info, R tolerance,         \
                                                 int *position);                                                       \
    VGC_SPARSE cusolverSp##S##csrluSolveHost(cusolverSpHandle_t handle, int n, const T *b, T *x, csrluInfoHost_t info, \
                                             void *buffer);                                                            \
    VGC_SPARSE cusolverSp##S##csrluExtractHost(cusolverSpHandle_t handle, int *p, int *q,                              \
                                               const cusparseMatDescr_t descriptor_l, T *values_l, int *offsets_l,     \
                                               int *columns_l, const cusparseMatDescr_t descriptor_u, T *values_u,     \
                                               int *offsets_u, int *columns_u, csrluInfoHost_t info, void *buffer);
VGC_SPARSE_LU(S, float, float)
VGC_SPARSE_LU(D, double, double)
VGC_SPARSE_LU(C, cuComplex, float)
VGC_SPARSE_LU(Z, cuDoubleComplex, double)

#define VGC_SPARSE_QR(S, T, R, Host)                                                                                   \
    VGC_SPARSE cusolverSp##S##csrqrBufferInfo##Host(VGC_SPARSE_PATTERN_QR, const T *values, const int *offsets,        \
                                                    const int *columns, csrqrInfo##Host##_t info, size_t *internal,    \
                                                    size_t *buffer);                                                   \
    VGC_SPARSE cusolverSp##S##csrqrSetup##Host(VGC_SPARSE_PATTERN_QR, const T *values, const int *offsets,             \
                                               const int *columns, T mu, csrqrInfo##Host##_t info);                    \
    VGC_SPARSE cusolverSp##S##csrqrFactor##Host(cusolverSpHandle_t handle, int m, int n, int nnz, T *b, T *x,          \
                                                csrqrInfo##Host##_t info, void *buffer);                               \
    VGC_SPARSE cusolverSp##S##csrqrZeroPivot##Host(cusolverSpHandle_t handle, csrqrInfo##Host##_t info, R tolerance,   \
                                                   int *position);                                                     \
    VGC_SPARSE cusolverSp##S##csrqrSolve##Host(cusolverSpHandle_t handle, int m, int n, T *b, T *x,                    \
                                               csrqrInfo##Host##_t info, void *buffer);
#define VGC_SPARSE_CHOLESKY(S, T, R, Host)                                                                             \
    VGC_SPARSE cusolverSp##S##csrcholBufferInfo##Host(VGC_SPARSE_PATTERN, const T *values, const int *offsets,         \
                                                      const int *columns, csrcholInfo##Host##_t info,                  \
                                                      size_t *internal, size_t *buffer);                               \
    VGC_SPARSE cusolverSp##S##csrcholFactor##Host(VGC_SPARSE_PATTERN, const T *values, const int *offsets,             \
                                                  const int *columns, csrcholInfo##Host##_t info, void *buffer);       \
    VGC_SPARSE cusolverSp##S##csrcholZeroPivot##Host(cusolverSpHandle_t handle, csrcholInfo##Host##_t info,            \
                                                     R tolerance, int *position);                                      \
    VGC_SPARSE cusolverSp##S##csrcholSolve##Host(cusolverSpHandle_t handle, int n, const T *b, T *x,                   \
                                                 csrcholInfo##Host##_t info, void *buffer);
#define VGC_SPARSE_PLACES(Host)                                                                                        \
    VGC_SPARSE cusolverSpXcsrqrAnalysis##Host(VGC_SPARSE_PATTERN_QR, const int *offsets, const int *columns,           \
                                              csrqrInfo##Host##_t info);                                               \
    VGC_SPARSE cusolverSpXcsrcholAnalysis##Host(VGC_SPARSE_PATTERN, const int *offsets, const int *columns,            \
                                                csrcholInfo##Host##_t info);                                           \
    VGC_SPARSE_QR(S, float, float, Host)                                                                               \
    VGC_SPARSE_QR(D, double, double, Host)                                                                             \
    VGC_SPARSE_QR(C, cuComplex, float, Host)                                                                           \
    VGC_SPARSE_QR(Z, cuDoubleComplex, double, Host)                                                                    \
    VGC_SPARSE_CHOLESKY(S, float, float, Host)                                                                         \
    VGC_SPARSE_CHOLESKY(D, double, double, Host)                                                                       \
    VGC_SPARSE_CHOLESKY(C, cuComplex, float, Host)                                                                     \
    VGC_SPARSE_CHOLESKY(Z, cuDoubleComplex, double, Host)
VGC_SPARSE_PLACES(Host)
VGC_SPARSE_PLACES()

#undef VGC_SPARSE
#ifdef __cplusplus
}
#endif
