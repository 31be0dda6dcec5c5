#include "mixed.h"

BLAS_GEMM(C, cuComplex, _v2, , int)
BLAS_GEMM(C, cuComplex, _v2, _64, int64_t)
BLAS_MIXED(complex_gemm, complex<float>, complex<float>, complex<float>, complex<float>)
