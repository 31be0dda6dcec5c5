#include "svd_api.h"

SOLVER_SVD(Z, cuDoubleComplex, double)
