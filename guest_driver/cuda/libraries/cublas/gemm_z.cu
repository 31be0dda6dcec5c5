#include "gemm.h"

BLAS_GEMM(Z, cuDoubleComplex, _v2, , int)
BLAS_GEMM(Z, cuDoubleComplex, _v2, _64, int64_t)
