#include "structured.h"

BLAS_STRUCTURED(C, cuComplex)
BLAS_BOTH_SIZES(BLAS_SYMV, Chemv, true, cuComplex)
BLAS_BOTH_SIZES(BLAS_SBMV, Chbmv, true, cuComplex)
BLAS_BOTH_SIZES(BLAS_SPMV, Chpmv, true, cuComplex)
BLAS_BOTH_SIZES(BLAS_SYR2, Cher2, true, cuComplex)
BLAS_BOTH_SIZES(BLAS_SPR2, Chpr2, true, cuComplex)
BLAS_BOTH_SIZES(BLAS_SYR, Cher, true, cuComplex, float)
BLAS_BOTH_SIZES(BLAS_SPR, Chpr, true, cuComplex, float)
