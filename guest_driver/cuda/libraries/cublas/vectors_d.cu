#include "vectors.h"

BLAS_BOTH_WIDTHS(BLAS_VECTORS, D, d, D, double, double)
BLAS_BOTH_WIDTHS(BLAS_DOT, Ddot, false, double)
BLAS_BOTH_WIDTHS(BLAS_ROT, Drot, double, double, double)
