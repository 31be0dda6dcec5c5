#include "eigen_api.h"

SOLVER_EIGEN(D, sy, double, double)
