#include "mixed.h"

BLAS_GEMM(S, float, _v2, , int)
BLAS_GEMM(S, float, _v2, _64, int64_t)
BLAS_MIXED(float_gemm, float, float, float, float)
