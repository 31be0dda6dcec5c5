#include "matrices.h"

BLAS_MATRICES(C, cuComplex, , int)
BLAS_GER(Cgeru, false, cuComplex, , int)
BLAS_GER(Cgerc, true, cuComplex, , int)
BLAS_MATRICES(C, cuComplex, _64, int64_t)
BLAS_GER(Cgeru, false, cuComplex, _64, int64_t)
BLAS_GER(Cgerc, true, cuComplex, _64, int64_t)
