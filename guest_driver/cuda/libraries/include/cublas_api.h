/* Types and functions of cuBLAS; cublas_v2.h gives the latter their usual names. Values as published.
 *
 * Matrices are column-major. Functions work in the handle's stream; results that go to the host are waited for.
 * A function that is not declared here is not there. */
#pragma once
#define CUBLAS_API_H_
#include <math.h>
#include <stdint.h>

#include "library_types.h"
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CUBLASAPI __attribute__((visibility("default")))
#define CUBLASWINAPI
#define CUBLAS_VER_MAJOR 12
#define CUBLAS_VER_MINOR 6
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VER_BUILD 22
#define CUBLAS_VERSION (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH)

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum {
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLAS_OP_C = 2,
    CUBLAS_OP_HERMITAN = 2,
    CUBLAS_OP_CONJG = 3
} cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_ALGO0 = 0,
    CUBLAS_GEMM_ALGO1 = 1,
    CUBLAS_GEMM_ALGO2 = 2,
    CUBLAS_GEMM_ALGO3 = 3,
    CUBLAS_GEMM_ALGO4 = 4,
    CUBLAS_GEMM_ALGO5 = 5,
    CUBLAS_GEMM_ALGO6 = 6,
    CUBLAS_GEMM_ALGO7 = 7,
    CUBLAS_GEMM_ALGO8 = 8,
    CUBLAS_GEMM_ALGO9 = 9,
    CUBLAS_GEMM_ALGO10 = 10,
    CUBLAS_GEMM_ALGO11 = 11,
    CUBLAS_GEMM_ALGO12 = 12,
    CUBLAS_GEMM_ALGO13 = 13,
    CUBLAS_GEMM_ALGO14 = 14,
    CUBLAS_GEMM_ALGO15 = 15,
    CUBLAS_GEMM_ALGO16 = 16,
    CUBLAS_GEMM_ALGO17 = 17,
    CUBLAS_GEMM_ALGO18 = 18,
    CUBLAS_GEMM_ALGO19 = 19,
    CUBLAS_GEMM_ALGO20 = 20,
    CUBLAS_GEMM_ALGO21 = 21,
    CUBLAS_GEMM_ALGO22 = 22,
    CUBLAS_GEMM_ALGO23 = 23,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
    CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
    CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
    CUBLAS_GEMM_ALGO1_TENSOR_OP = 101,
    CUBLAS_GEMM_ALGO2_TENSOR_OP = 102,
    CUBLAS_GEMM_ALGO3_TENSOR_OP = 103,
    CUBLAS_GEMM_ALGO4_TENSOR_OP = 104,
    CUBLAS_GEMM_ALGO5_TENSOR_OP = 105,
    CUBLAS_GEMM_ALGO6_TENSOR_OP = 106,
    CUBLAS_GEMM_ALGO7_TENSOR_OP = 107,
    CUBLAS_GEMM_ALGO8_TENSOR_OP = 108,
    CUBLAS_GEMM_ALGO9_TENSOR_OP = 109,
    CUBLAS_GEMM_ALGO10_TENSOR_OP = 110,
    CUBLAS_GEMM_ALGO11_TENSOR_OP = 111,
    CUBLAS_GEMM_ALGO12_TENSOR_OP = 112,
    CUBLAS_GEMM_ALGO13_TENSOR_OP = 113,
    CUBLAS_GEMM_ALGO14_TENSOR_OP = 114,
    CUBLAS_GEMM_ALGO15_TENSOR_OP = 115
} cublasGemmAlgo_t;
typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef cudaDataType cublasDataType_t;
typedef struct cublasContext *cublasHandle_t;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles and helpers ---- */

CUBLASAPI cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
CUBLASAPI cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
CUBLASAPI cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
CUBLASAPI cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
CUBLASAPI size_t cublasGetCudartVersion(void);
CUBLASAPI cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes);
CUBLASAPI cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
CUBLASAPI cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream);
CUBLASAPI cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode);
CUBLASAPI cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
CUBLASAPI cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode);
CUBLASAPI cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
CUBLASAPI cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode);
CUBLASAPI cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
CUBLASAPI cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int *count);
CUBLASAPI cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
CUBLASAPI const char *cublasGetStatusName(cublasStatus_t status);
CUBLASAPI const char *cublasGetStatusString(cublasStatus_t status);

/* Most functions also have a form with the suffix _64, whose numbers are int64_t: VGC_WIDTHS(declare, ...) declares
 * both. */
#define VGC_WIDTHS(declare, ...) declare(, int, __VA_ARGS__) declare(_64, int64_t, __VA_ARGS__)
#define VGC_TYPES(declare)                                                                                             \
    VGC_WIDTHS(declare, S, float)                                                                                      \
    VGC_WIDTHS(declare, D, double) VGC_WIDTHS(declare, C, cuComplex) VGC_WIDTHS(declare, Z, cuDoubleComplex)
#define VGC_STATUS CUBLASAPI cublasStatus_t

/* Copies between host and device of `n` elements of `element` bytes, or of matrices of such elements. */
#define VGC_TRANSFERS(w, I)                                                                                            \
    VGC_STATUS cublasSetVector##w(I n, I element, const void *x, I incx, void *y, I incy);                             \
    VGC_STATUS cublasGetVector##w(I n, I element, const void *x, I incx, void *y, I incy);                             \
    VGC_STATUS cublasSetMatrix##w(I rows, I columns, I element, const void *a, I lda, void *b, I ldb);                 \
    VGC_STATUS cublasGetMatrix##w(I rows, I columns, I element, const void *a, I lda, void *b, I ldb);                 \
    VGC_STATUS cublasSetVectorAsync##w(I n, I element, const void *x, I incx, void *y, I incy, cudaStream_t stream);   \
    VGC_STATUS cublasGetVectorAsync##w(I n, I element, const void *x, I incx, void *y, I incy, cudaStream_t stream);   \
    VGC_STATUS cublasSetMatrixAsync##w(I rows, I columns, I element, const void *a, I lda, void *b, I ldb,             \
                                       cudaStream_t stream);                                                           \
    VGC_STATUS cublasGetMatrixAsync##w(I rows, I columns, I element, const void *a, I lda, void *b, I ldb,             \
                                       cudaStream_t stream);
VGC_TRANSFERS(, int)
VGC_TRANSFERS(_64, int64_t)

/* ---- vectors of n elements ---- */

#define VGC_VECTORS(w, I, S, T)                                                                                        \
    VGC_STATUS cublas##S##axpy_v2##w(cublasHandle_t handle, I n, const T *alpha, const T *x, I incx, T *y, I incy);    \
    VGC_STATUS cublas##S##scal_v2##w(cublasHandle_t handle, I n, const T *alpha, T *x, I incx);                        \
    VGC_STATUS cublas##S##copy_v2##w(cublasHandle_t handle, I n, const T *x, I incx, T *y, I incy);                    \
    VGC_STATUS cublas##S##swap_v2##w(cublasHandle_t handle, I n, T *x, I incx, T *y, I incy);
VGC_TYPES(VGC_VECTORS)
#define VGC_EXTREME(w, I, s, T)                                                                                        \
    VGC_STATUS cublasI##s##amax_v2##w(cublasHandle_t handle, I n, const T *x, I incx, I *result);                      \
    VGC_STATUS cublasI##s##amin_v2##w(cublasHandle_t handle, I n, const T *x, I incx, I *result);
VGC_WIDTHS(VGC_EXTREME, s, float)
VGC_WIDTHS(VGC_EXTREME, d, double)
VGC_WIDTHS(VGC_EXTREME, c, cuComplex)
VGC_WIDTHS(VGC_EXTREME, z, cuDoubleComplex)
#define VGC_NORMS(w, I, S, T, R)                                                                                       \
    VGC_STATUS cublas##S##nrm2_v2##w(cublasHandle_t handle, I n, const T *x, I incx, R *result);                       \
    VGC_STATUS cublas##S##asum_v2##w(cublasHandle_t handle, I n, const T *x, I incx, R *result);
VGC_WIDTHS(VGC_NORMS, S, float, float)
VGC_WIDTHS(VGC_NORMS, D, double, double)
VGC_WIDTHS(VGC_NORMS, Sc, cuComplex, float)
VGC_WIDTHS(VGC_NORMS, Dz, cuDoubleComplex, double)
#define VGC_DOT(w, I, name, T)                                                                                         \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, I n, const T *x, I incx, const T *y, I incy, T *result);
VGC_WIDTHS(VGC_DOT, Sdot, float)
VGC_WIDTHS(VGC_DOT, Ddot, double)
VGC_WIDTHS(VGC_DOT, Cdotu, cuComplex)
VGC_WIDTHS(VGC_DOT, Cdotc, cuComplex)
VGC_WIDTHS(VGC_DOT, Zdotu, cuDoubleComplex)
VGC_WIDTHS(VGC_DOT, Zdotc, cuDoubleComplex)
VGC_STATUS cublasCsscal_v2(cublasHandle_t handle, int n, const float *alpha, cuComplex *x, int incx);
VGC_STATUS cublasZdscal_v2(cublasHandle_t handle, int n, const double *alpha, cuDoubleComplex *x, int incx);
VGC_STATUS cublasCsscal_v2_64(cublasHandle_t handle, int64_t n, const float *alpha, cuComplex *x, int64_t incx);
VGC_STATUS cublasZdscal_v2_64(cublasHandle_t handle, int64_t n, const double *alpha, cuDoubleComplex *x, int64_t incx);
#define VGC_ROT(w, I, S, T, R, F)                                                                                      \
    VGC_STATUS cublas##S##rot_v2##w(cublasHandle_t handle, I n, T *x, I incx, T *y, I incy, const R *c, const F *s);
VGC_WIDTHS(VGC_ROT, S, float, float, float)
VGC_WIDTHS(VGC_ROT, D, double, double, double)
VGC_WIDTHS(VGC_ROT, C, cuComplex, float, cuComplex)
VGC_WIDTHS(VGC_ROT, Z, cuDoubleComplex, double, cuDoubleComplex)
VGC_WIDTHS(VGC_ROT, Cs, cuComplex, float, float)
VGC_WIDTHS(VGC_ROT, Zd, cuDoubleComplex, double, double)

/* ---- matrices ---- */

#define VGC_GEMM(w, I, S, T)                                                                                           \
    VGC_STATUS cublas##S##gemm_v2##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n,    \
                                     I k, const T *alpha, const T *a, I lda, const T *b, I ldb, const T *beta, T *c,   \
                                     I ldc);                                                                           \
    VGC_STATUS cublas##S##gemmBatched##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m,     \
                                         I n, I k, const T *alpha, const T *const a[], I lda, const T *const b[],      \
                                         I ldb, const T *beta, T *const c[], I ldc, I count);                          \
    VGC_STATUS cublas##S##gemmStridedBatched##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,   \
                                                I m, I n, I k, const T *alpha, const T *a, I lda, long long jump_a,    \
                                                const T *b, I ldb, long long jump_b, const T *beta, T *c, I ldc,       \
                                                long long jump_c, I count);
VGC_TYPES(VGC_GEMM)

#define VGC_MATRICES(w, I, S, T)                                                                                       \
    VGC_STATUS cublas##S##gemv_v2##w(cublasHandle_t handle, cublasOperation_t op, I m, I n, const T *alpha,            \
                                     const T *a, I lda, const T *x, I incx, const T *beta, T *y, I incy);              \
    VGC_STATUS cublas##S##geam##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n,       \
                                  const T *alpha, const T *a, I lda, const T *beta, const T *b, I ldb, T *c, I ldc);   \
    VGC_STATUS cublas##S##dgmm##w(cublasHandle_t handle, cublasSideMode_t side, I m, I n, const T *a, I lda,           \
                                  const T *x, I incx, T *c, I ldc);                                                    \
    VGC_STATUS cublas##S##trsm_v2##w(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,              \
                                     cublasOperation_t op, cublasDiagType_t diagonal, I m, I n, const T *alpha,        \
                                     const T *a, I lda, T *b, I ldb);
VGC_TYPES(VGC_MATRICES)
#define VGC_GER(w, I, name, T)                                                                                         \
    VGC_STATUS cublas##name##_v2##w(cublasHandle_t handle, I m, I n, const T *alpha, const T *x, I incx, const T *y,   \
                                    I incy, T *a, I lda);
VGC_WIDTHS(VGC_GER, Sger, float)
VGC_WIDTHS(VGC_GER, Dger, double)
VGC_WIDTHS(VGC_GER, Cgeru, cuComplex)
VGC_WIDTHS(VGC_GER, Cgerc, cuComplex)
VGC_WIDTHS(VGC_GER, Zgeru, cuDoubleComplex)
VGC_WIDTHS(VGC_GER, Zgerc, cuDoubleComplex)

/* Matrices of types told at run time, and of half precision. */
#define VGC_GEMM_EX(w, I)                                                                                              \
    VGC_STATUS cublasGemmEx##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,     \
                               const void *alpha, const void *a, cudaDataType ta, I lda, const void *b,                \
                               cudaDataType tb, I ldb, const void *beta, void *c, cudaDataType tc, I ldc,              \
                               cublasComputeType_t compute, cublasGemmAlgo_t algorithm);                               \
    VGC_STATUS cublasGemmStridedBatchedEx##w(                                                                          \
        cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k, const void *alpha,         \
        const void *a, cudaDataType ta, I lda, long long jump_a, const void *b, cudaDataType tb, I ldb,                \
        long long jump_b, const void *beta, void *c, cudaDataType tc, I ldc, long long jump_c, I count,                \
        cublasComputeType_t compute, cublasGemmAlgo_t algorithm);                                                      \
    VGC_STATUS cublasGemmBatchedEx##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n,   \
                                      I k, const void *alpha, const void *const a[], cudaDataType ta, I lda,           \
                                      const void *const b[], cudaDataType tb, I ldb, const void *beta,                 \
                                      void *const c[], cudaDataType tc, I ldc, I count, cublasComputeType_t compute,   \
                                      cublasGemmAlgo_t algorithm);                                                     \
    VGC_STATUS cublasSgemmEx##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,    \
                                const float *alpha, const void *a, cudaDataType ta, I lda, const void *b,              \
                                cudaDataType tb, I ldb, const float *beta, void *c, cudaDataType tc, I ldc);           \
    VGC_STATUS cublasHgemm##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,      \
                              const __half *alpha, const __half *a, I lda, const __half *b, I ldb, const __half *beta, \
                              __half *c, I ldc);                                                                       \
    VGC_STATUS cublasHgemmBatched##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m, I n,    \
                                     I k, const __half *alpha, const __half *const a[], I lda,                         \
                                     const __half *const b[], I ldb, const __half *beta, __half *const c[], I ldc,     \
                                     I count);                                                                         \
    VGC_STATUS cublasHgemmStridedBatched##w(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, I m,  \
                                            I n, I k, const __half *alpha, const __half *a, I lda, long long jump_a,   \
                                            const __half *b, I ldb, long long jump_b, const __half *beta, __half *c,   \
                                            I ldc, long long jump_c, I count);
VGC_GEMM_EX(, int)
VGC_GEMM_EX(_64, int64_t)

#include "cublas_batches.h"
#include "cublas_structured.h"
#include "cublas_vectors.h"

#undef VGC_WIDTHS
#undef VGC_TYPES
#undef VGC_STATUS
#undef VGC_TRANSFERS
#undef VGC_VECTORS
#undef VGC_EXTREME
#undef VGC_NORMS
#undef VGC_DOT
#undef VGC_ROT
#undef VGC_GEMM
#undef VGC_MATRICES
#undef VGC_GER
#undef VGC_GEMM_EX
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
/* Forms of before CUDA 11, with a type of numbers in place of a type of computation. */
static inline cublasComputeType_t __vgc_compute_type(cudaDataType type)
{
    return type == CUDA_R_16F                         ? CUBLAS_COMPUTE_16F
           : type == CUDA_R_64F || type == CUDA_C_64F ? CUBLAS_COMPUTE_64F
           : type == CUDA_R_32I                       ? CUBLAS_COMPUTE_32I
           : type == CUDA_R_32F || type == CUDA_C_32F ? CUBLAS_COMPUTE_32F
                                                      : (cublasComputeType_t)-1;
}
static inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                                          int n, int k, const void *alpha, const void *a, cudaDataType ta, int lda,
                                          const void *b, cudaDataType tb, int ldb, const void *beta, void *c,
                                          cudaDataType tc, int ldc, cudaDataType compute, cublasGemmAlgo_t algorithm)
{
    return cublasGemmEx(handle, opa, opb, m, n, k, alpha, a, ta, lda, b, tb, ldb, beta, c, tc, ldc,
                        __vgc_compute_type(compute), algorithm);
}
static inline cublasStatus_t
cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
                           const void *alpha, const void *a, cudaDataType ta, int lda, long long jump_a, const void *b,
                           cudaDataType tb, int ldb, long long jump_b, const void *beta, void *c, cudaDataType tc,
                           int ldc, long long jump_c, int count, cudaDataType compute, cublasGemmAlgo_t algorithm)
{
    return cublasGemmStridedBatchedEx(handle, opa, opb, m, n, k, alpha, a, ta, lda, jump_a, b, tb, ldb, jump_b, beta, c,
                                      tc, ldc, jump_c, count, __vgc_compute_type(compute), algorithm);
}
#endif
