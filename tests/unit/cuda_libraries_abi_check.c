/* Compiles if cuda_libraries_abi.h says what NVIDIA's headers of cuBLAS and cuFFT say. */
#include <cublas_v2.h>
#include <cufft.h>

/* Functions are compared under the names that the libraries export. */
#undef cublasCreate
#undef cublasDestroy
#undef cublasSetStream
#undef cublasSetWorkspace

#include "cuda_libraries_abi.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs)
SAME(BLAS_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(BLAS_MAPPING_ERROR, CUBLAS_STATUS_MAPPING_ERROR);
SAME(BLAS_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
SAME(BLAS_INTERNAL_ERROR, CUBLAS_STATUS_INTERNAL_ERROR);
SAME(BLAS_OP_N, CUBLAS_OP_N);
SAME(BLAS_OP_T, CUBLAS_OP_T);
SAME(BLAS_R_32F, CUDA_R_32F);
SAME(BLAS_R_64F, CUDA_R_64F);
SAME(BLAS_R_16F, CUDA_R_16F);
SAME(BLAS_R_16BF, CUDA_R_16BF);
SAME(BLAS_C_32F, CUDA_C_32F);
SAME(BLAS_C_64F, CUDA_C_64F);
SAME(BLAS_COMPUTE_64F_PEDANTIC, CUBLAS_COMPUTE_64F_PEDANTIC);
SAME(BLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(BLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(BLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
SAME(BLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
SAME(FFT_SUCCESS, CUFFT_SUCCESS);
SAME(FFT_INTERNAL_ERROR, CUFFT_INTERNAL_ERROR);
SAME(FFT_EXEC_FAILED, CUFFT_EXEC_FAILED);
SAME(FFT_C2C, CUFFT_C2C);
SAME(FFT_R2C, CUFFT_R2C);
SAME(FFT_C2R, CUFFT_C2R);
SAME(FFT_Z2Z, CUFFT_Z2Z);
SAME(FFT_D2Z, CUFFT_D2Z);
SAME(FFT_Z2D, CUFFT_Z2D);
SAME(FFT_FORWARD, CUFFT_FORWARD);
SAME(FFT_INVERSE, CUFFT_INVERSE);

#define SAME_TYPE(type, name, parameters)                                                                              \
    _Static_assert(__builtin_types_compatible_p(type(*) parameters, __typeof__(&name)), #name " has another type");
#define SAME_BLAS(name, parameters) SAME_TYPE(blas_result, name, parameters)
#define SAME_FFT(name, parameters) SAME_TYPE(fft_result, name, parameters)
BLAS_FUNCTIONS(SAME_BLAS)
FFT_FUNCTIONS(SAME_FFT)
