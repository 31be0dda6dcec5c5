#include "matrices.h"

BLAS_BOTH_SIZES(BLAS_MATRICES, C, cuComplex)
BLAS_BOTH_SIZES(BLAS_GER, Cgeru, false, cuComplex)
BLAS_BOTH_SIZES(BLAS_GER, Cgerc, true, cuComplex)
