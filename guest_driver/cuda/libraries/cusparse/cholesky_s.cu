#include "factors.h"

SPARSE_FACTOR(cholesky_s, float, false)
