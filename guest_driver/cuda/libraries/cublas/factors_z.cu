#include "factors.h"

BLAS_FACTORS(Z, cuDoubleComplex)
