/* cuBLASXt for guests: products of matrices of the host's, which may be larger than the device's memory. One device.
 *
 * A function that is not declared here is not there. */
#pragma once
#define CUBLAS_XT_H_
#include "cublas_v2.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cublasXtContext *cublasXtHandle_t;
typedef enum { CUBLASXT_PINNING_DISABLED = 0, CUBLASXT_PINNING_ENABLED = 1 } cublasXtPinnedMemMode_t;

CUBLASAPI cublasStatus_t cublasXtCreate(cublasXtHandle_t *handle);
CUBLASAPI cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle);
CUBLASAPI cublasStatus_t cublasXtMaxBoards(int *count);
CUBLASAPI cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t handle, int count, int devices[]);
CUBLASAPI cublasStatus_t cublasXtSetBlockDim(cublasXtHandle_t handle, int rows);
CUBLASAPI cublasStatus_t cublasXtGetBlockDim(cublasXtHandle_t handle, int *rows);
CUBLASAPI cublasStatus_t cublasXtSetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t mode);
CUBLASAPI cublasStatus_t cublasXtGetPinningMemMode(cublasXtHandle_t handle, cublasXtPinnedMemMode_t *mode);

#define VGC_XT_GEMM(S, T)                                                                                              \
    CUBLASAPI cublasStatus_t cublasXt##S##gemm(cublasXtHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,  \
                                               size_t m, size_t n, size_t k, const T *alpha, const T *a, size_t lda,   \
                                               const T *b, size_t ldb, const T *beta, T *c, size_t ldc);
VGC_XT_GEMM(S, float)
VGC_XT_GEMM(D, double)
VGC_XT_GEMM(C, cuComplex)
VGC_XT_GEMM(Z, cuDoubleComplex)
#undef VGC_XT_GEMM

#ifdef __cplusplus
}
#endif
