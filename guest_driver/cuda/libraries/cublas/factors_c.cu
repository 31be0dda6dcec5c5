#include "factors.h"

BLAS_FACTORS(C, cuComplex)
