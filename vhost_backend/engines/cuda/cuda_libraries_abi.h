/* The parts of cuBLAS' and cuFFT's binary interfaces that the engine uses, so that it builds without CUDA.
 *
 * Names are those that the libraries export. A test compares numbers and types with NVIDIA's headers where these are
 * installed (tests/unit/test_cuda_libraries_abi.py). */
#ifndef VGC_CUDA_LIBRARIES_ABI_H
#define VGC_CUDA_LIBRARIES_ABI_H

#include "cuda_abi.h"

/* ---- cuBLAS ----------------------------------------------------------------------------------------------------- */

typedef unsigned int blas_result; /* cublasStatus_t */
typedef struct cublasContext *blas_handle;

enum {
    BLAS_SUCCESS = 0,
    BLAS_MAPPING_ERROR = 11,
    BLAS_EXECUTION_FAILED = 13,
    BLAS_INTERNAL_ERROR = 14,
    BLAS_OP_N = 0,
    BLAS_OP_T = 1,
    BLAS_R_32F = 0,
    BLAS_R_64F = 1,
    BLAS_R_16F = 2,
    BLAS_COMPUTE_32F = 68,
    BLAS_COMPUTE_64F = 70,
    BLAS_R_16BF = 14,
    BLAS_C_32F = 4,
    BLAS_C_64F = 5,
    BLAS_COMPUTE_64F_PEDANTIC = 71,
    BLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};
enum { BLAS_GEMM_DEFAULT = -1 };

#define BLAS_FUNCTIONS(X)                                                                                              \
    X(cublasCreate_v2, (blas_handle * handle))                                                                         \
    X(cublasDestroy_v2, (blas_handle handle))                                                                          \
    X(cublasSetMathMode, (blas_handle handle, unsigned int mode))                                                      \
    X(cublasSetSmCountTarget, (blas_handle handle, int count))                                                         \
    X(cublasSetStream_v2, (blas_handle handle, drv_stream stream))                                                     \
    X(cublasSetWorkspace_v2, (blas_handle handle, void *workspace, size_t size))                                       \
    X(cublasGemmStridedBatchedEx_64,                                                                                   \
      (blas_handle handle, unsigned int transpose_a, unsigned int transpose_b, int64_t m, int64_t n, int64_t k,        \
       const void *alpha, const void *a, unsigned int a_type, int64_t lda, long long stride_a, const void *b,          \
       unsigned int b_type, int64_t ldb, long long stride_b, const void *beta, void *c, unsigned int c_type,           \
       int64_t ldc, long long stride_c, int64_t batch, unsigned int compute, int algorithm))

/* ---- cuFFT ------------------------------------------------------------------------------------------------------ */

typedef unsigned int fft_result; /* cufftResult */
typedef int fft_plan;            /* cufftHandle */
struct float2;
struct double2;

enum {
    FFT_SUCCESS = 0,
    FFT_INTERNAL_ERROR = 5,
    FFT_EXEC_FAILED = 6,
    FFT_C2C = 0x29,
    FFT_R2C = 0x2a,
    FFT_C2R = 0x2c,
    FFT_Z2Z = 0x69,
    FFT_D2Z = 0x6a,
    FFT_Z2D = 0x6c,
};
enum { FFT_FORWARD = -1, FFT_INVERSE = 1 };

#define FFT_FUNCTIONS(X)                                                                                               \
    X(cufftCreate, (fft_plan * plan))                                                                                  \
    X(cufftDestroy, (fft_plan plan))                                                                                   \
    X(cufftSetAutoAllocation, (fft_plan plan, int allocates))                                                          \
    X(cufftMakePlanMany64, (fft_plan plan, int rank, long long *lengths, long long *in_lengths, long long in_stride,   \
                            long long in_distance, long long *out_lengths, long long out_stride,                       \
                            long long out_distance, unsigned int type, long long batch, size_t *work_bytes))           \
    X(cufftSetStream, (fft_plan plan, drv_stream stream))                                                              \
    X(cufftSetWorkArea, (fft_plan plan, void *work))                                                                   \
    X(cufftExecC2C, (fft_plan plan, struct float2 * in, struct float2 * out, int direction))                           \
    X(cufftExecR2C, (fft_plan plan, float *in, struct float2 *out))                                                    \
    X(cufftExecC2R, (fft_plan plan, struct float2 * in, float *out))                                                   \
    X(cufftExecZ2Z, (fft_plan plan, struct double2 * in, struct double2 * out, int direction))                         \
    X(cufftExecD2Z, (fft_plan plan, double *in, struct double2 *out))                                                  \
    X(cufftExecZ2D, (fft_plan plan, struct double2 * in, double *out))

#endif
