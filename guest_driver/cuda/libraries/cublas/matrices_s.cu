#include "matrices.h"

BLAS_BOTH_SIZES(BLAS_MATRICES, S, float)
BLAS_BOTH_SIZES(BLAS_GER, Sger, false, float)
