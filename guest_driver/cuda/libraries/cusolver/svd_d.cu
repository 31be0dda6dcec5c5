#include "svd_api.h"

SOLVER_SVD(D, double, double)
