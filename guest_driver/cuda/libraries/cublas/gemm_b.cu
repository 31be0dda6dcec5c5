#include "mixed.h"

BLAS_MIXED(bfloat_gemm, __nv_bfloat16, float, __nv_bfloat16, float)
BLAS_MIXED(bfloat_to_float_gemm, __nv_bfloat16, float, float, float)
