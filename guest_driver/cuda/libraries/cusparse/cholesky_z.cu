#include "factors.h"

SPARSE_FACTOR(cholesky_z, ComplexDouble, false)
