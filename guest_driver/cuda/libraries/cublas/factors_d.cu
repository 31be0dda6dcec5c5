#include "factors.h"

BLAS_FACTORS(D, double)
