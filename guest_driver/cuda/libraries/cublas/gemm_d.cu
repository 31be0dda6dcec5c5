#include "mixed.h"

BLAS_GEMM(D, double, _v2, , int)
BLAS_GEMM(D, double, _v2, _64, int64_t)
BLAS_MIXED(double_gemm, double, double, double, double)
