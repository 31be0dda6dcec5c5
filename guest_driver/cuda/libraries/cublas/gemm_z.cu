#include "mixed.h"

BLAS_GEMM(Z, cuDoubleComplex, _v2, , int)
BLAS_GEMM(Z, cuDoubleComplex, _v2, _64, int64_t)
BLAS_MIXED(double_complex_gemm, complex<double>, complex<double>, complex<double>, complex<double>)
