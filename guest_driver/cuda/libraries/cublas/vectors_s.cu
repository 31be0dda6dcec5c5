#include "vectors.h"

BLAS_BOTH_WIDTHS(BLAS_VECTORS, S, s, S, float, float)
BLAS_BOTH_WIDTHS(BLAS_DOT, Sdot, false, float)
BLAS_BOTH_WIDTHS(BLAS_ROT, Srot, float, float, float)
