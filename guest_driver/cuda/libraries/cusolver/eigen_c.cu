#include "eigen_api.h"

SOLVER_EIGEN(C, he, cuComplex, float)
