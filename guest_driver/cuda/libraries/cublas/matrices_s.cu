#include "matrices.h"

BLAS_MATRICES(S, float, , int)
BLAS_GER(Sger, false, float, , int)
BLAS_MATRICES(S, float, _64, int64_t)
BLAS_GER(Sger, false, float, _64, int64_t)
