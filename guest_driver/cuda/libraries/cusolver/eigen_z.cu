#include "eigen_api.h"

SOLVER_EIGEN(Z, he, cuDoubleComplex, double)
