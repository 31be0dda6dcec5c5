#include "structured.h"

BLAS_STRUCTURED(Z, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SYMV, Zhemv, true, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SBMV, Zhbmv, true, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SPMV, Zhpmv, true, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SYR2, Zher2, true, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SPR2, Zhpr2, true, cuDoubleComplex)
BLAS_BOTH_SIZES(BLAS_SYR, Zher, true, cuDoubleComplex, double)
BLAS_BOTH_SIZES(BLAS_SPR, Zhpr, true, cuDoubleComplex, double)
