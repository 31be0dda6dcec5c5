#include "svd_api.h"

SOLVER_SVD(C, cuComplex, float)
