#include "structured.h"

BLAS_STRUCTURED(S, float)
BLAS_BOTH_SIZES(BLAS_SBMV, Ssbmv, false, float)
BLAS_BOTH_SIZES(BLAS_SPMV, Sspmv, false, float)
BLAS_BOTH_SIZES(BLAS_SPR2, Sspr2, false, float)
BLAS_BOTH_SIZES(BLAS_SPR, Sspr, false, float, float)
