#include "jacobi.h"

SOLVER_JACOBI(C, he, cuComplex, float)
