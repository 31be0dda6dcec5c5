#include "matrices.h"

BLAS_MATRICES(Z, cuDoubleComplex, , int)
BLAS_GER(Zgeru, false, cuDoubleComplex, , int)
BLAS_GER(Zgerc, true, cuDoubleComplex, , int)
BLAS_MATRICES(Z, cuDoubleComplex, _64, int64_t)
BLAS_GER(Zgeru, false, cuDoubleComplex, _64, int64_t)
BLAS_GER(Zgerc, true, cuDoubleComplex, _64, int64_t)
