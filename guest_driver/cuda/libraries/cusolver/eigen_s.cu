#include "eigen_api.h"

SOLVER_EIGEN(S, sy, float, float)
