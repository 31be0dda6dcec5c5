#include "structured.h"

BLAS_STRUCTURED(D, double)
BLAS_BOTH_SIZES(BLAS_SBMV, Dsbmv, false, double)
BLAS_BOTH_SIZES(BLAS_SPMV, Dspmv, false, double)
BLAS_BOTH_SIZES(BLAS_SPR2, Dspr2, false, double)
BLAS_BOTH_SIZES(BLAS_SPR, Dspr, false, double, double)
