#include "matrices.h"

BLAS_BOTH_SIZES(BLAS_MATRICES, Z, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_GER, Zgeru, false, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_GER, Zgerc, true, cuDoubleComplex)
