#include "triangles.h"

BLAS_BOTH_SIZES(BLAS_TRIANGLES, C, cuComplex)
