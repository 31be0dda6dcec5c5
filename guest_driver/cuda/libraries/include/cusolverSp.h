/* cuSOLVER for sparse matrices in CSR form: what is implemented, and nothing else. Values as published.
 *
 * Arrays of functions whose names end in Host lie on the host, those of the others on the device. Decompositions are
 * made by the processor of the guest in either case. `singularity`: -1, or the first pivot that is at most `tolerance`.
 */
#pragma once
#define CUSOLVERSP_H_
#include "cusolver_common.h"
#include "cusparse.h"
#include <cuComplex.h>
#include <stddef.h>

typedef struct cusolverSpContext *cusolverSpHandle_t;
typedef struct csrqrInfo *csrqrInfo_t;

#ifdef __cplusplus
extern "C" {
#endif
#define VGC_SPARSE CUSOLVERAPI cusolverStatus_t

VGC_SPARSE cusolverSpCreate(cusolverSpHandle_t *handle);
VGC_SPARSE cusolverSpDestroy(cusolverSpHandle_t handle);
VGC_SPARSE cusolverSpSetStream(cusolverSpHandle_t handle, cudaStream_t stream);
VGC_SPARSE cusolverSpGetStream(cusolverSpHandle_t handle, cudaStream_t *stream);

VGC_SPARSE cusolverSpXcsrissymHost(cusolverSpHandle_t handle, int n, int nnz, const cusparseMatDescr_t descriptor,
                                   const int *offsets, const int *ends, const int *columns, int *result);

/* ---- orders ---- */

#define VGC_SPARSE_ORDER(name)                                                                                         \
    VGC_SPARSE cusolverSpXcsr##name##Host(cusolverSpHandle_t handle, int n, int nnz,                                   \
                                          const cusparseMatDescr_t descriptor, const int *offsets, const int *columns, \
                                          int *order);
VGC_SPARSE_ORDER(symrcm)
VGC_SPARSE_ORDER(symmdq)
VGC_SPARSE_ORDER(symamd)
VGC_SPARSE cusolverSpXcsrmetisndHost(cusolverSpHandle_t handle, int n, int nnz, const cusparseMatDescr_t descriptor,
                                     const int *offsets, const int *columns, const int64_t *options, int *order);
VGC_SPARSE cusolverSpXcsrperm_bufferSizeHost(cusolverSpHandle_t handle, int m, int n, int nnz,
                                             const cusparseMatDescr_t descriptor, const int *offsets,
                                             const int *columns, const int *p, const int *q, size_t *size);
VGC_SPARSE cusolverSpXcsrpermHost(cusolverSpHandle_t handle, int m, int n, int nnz, const cusparseMatDescr_t descriptor,
                                  int *offsets, int *columns, const int *p, const int *q, int *map, void *buffer);

/* ---- linear systems and eigenvalues; reorder: 0 none, 1 symrcm, 2 symamd, 3 metisnd ---- */

#define VGC_SPARSE_SOLVE(name, T, R)                                                                                   \
    VGC_SPARSE cusolverSp##name(cusolverSpHandle_t handle, int n, int nnz, const cusparseMatDescr_t descriptor,        \
                                const T *values, const int *offsets, const int *columns, const T *b, R tolerance,      \
                                int reorder, T *x, int *singularity);
#define VGC_SPARSE_EIGEN(name, T, R)                                                                                   \
    VGC_SPARSE cusolverSp##name(cusolverSpHandle_t handle, int n, int nnz, const cusparseMatDescr_t descriptor,        \
                                const T *values, const int *offsets, const int *columns, T mu0, const T *x0,           \
                                int rounds, R tolerance, T *mu, T *x);
#define VGC_SPARSE_FUNCTIONS(S, T, R)                                                                                  \
    VGC_SPARSE_SOLVE(S##csrlsvluHost, T, R)                                                                            \
    VGC_SPARSE_SOLVE(S##csrlsvqrHost, T, R)                                                                            \
    VGC_SPARSE_SOLVE(S##csrlsvcholHost, T, R)                                                                          \
    VGC_SPARSE_SOLVE(S##csrlsvqr, T, R)                                                                                \
    VGC_SPARSE_SOLVE(S##csrlsvchol, T, R)                                                                              \
    VGC_SPARSE_EIGEN(S##csreigvsiHost, T, R)                                                                           \
    VGC_SPARSE_EIGEN(S##csreigvsi, T, R)
VGC_SPARSE_FUNCTIONS(S, float, float)
VGC_SPARSE_FUNCTIONS(D, double, double)
VGC_SPARSE_FUNCTIONS(C, cuComplex, float)
VGC_SPARSE_FUNCTIONS(Z, cuDoubleComplex, double)

#undef VGC_SPARSE
#ifdef __cplusplus
}
#endif
