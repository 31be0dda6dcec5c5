#include "factors.h"

SPARSE_FACTOR(cholesky_d, double, false)
