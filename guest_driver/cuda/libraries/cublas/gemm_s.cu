#include "gemm.h"

BLAS_GEMM(S, float, _v2, , int)
BLAS_GEMM(S, float, _v2, _64, int64_t)
