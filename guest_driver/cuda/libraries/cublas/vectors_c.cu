#include "vectors.h"

BLAS_BOTH_WIDTHS(BLAS_VECTORS, C, c, Sc, cuComplex, float)
BLAS_BOTH_WIDTHS(BLAS_DOT, Cdotu, false, cuComplex)
BLAS_BOTH_WIDTHS(BLAS_DOT, Cdotc, true, cuComplex)
BLAS_BOTH_WIDTHS(BLAS_SCAL, Csscal, cuComplex, float)
BLAS_BOTH_WIDTHS(BLAS_ROT, Crot, cuComplex, float, cuComplex)
BLAS_BOTH_WIDTHS(BLAS_ROT, Csrot, cuComplex, float, float)
