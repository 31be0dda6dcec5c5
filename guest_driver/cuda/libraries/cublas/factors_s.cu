#include "factors.h"

BLAS_FACTORS(S, float)
