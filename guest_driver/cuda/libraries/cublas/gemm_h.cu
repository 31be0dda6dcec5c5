#include "mixed.h"

BLAS_MIXED(half_gemm, __half, float, __half, float)
BLAS_MIXED(half_to_float_gemm, __half, float, float, float)
