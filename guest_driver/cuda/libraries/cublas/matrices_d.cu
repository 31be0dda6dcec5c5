#include "matrices.h"

BLAS_BOTH_SIZES(BLAS_MATRICES, D, double)
BLAS_BOTH_SIZES(BLAS_GER, Dger, false, double)
