#include "factors.h"

SPARSE_FACTOR(cholesky_c, ComplexSingle, false)
