#include "svd_api.h"

SOLVER_SVD(S, float, float)
