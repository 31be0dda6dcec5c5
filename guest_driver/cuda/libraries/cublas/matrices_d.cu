#include "matrices.h"

BLAS_MATRICES(D, double, , int)
BLAS_GER(Dger, false, double, , int)
BLAS_MATRICES(D, double, _64, int64_t)
BLAS_GER(Dger, false, double, _64, int64_t)
