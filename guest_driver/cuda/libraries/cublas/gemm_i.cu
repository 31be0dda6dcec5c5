#include "mixed.h"

BLAS_MIXED(char_to_float_gemm, signed char, float, float, float)
BLAS_MIXED(char_to_int_gemm, signed char, int, int, int)
