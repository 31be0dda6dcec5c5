#include "jacobi.h"

SOLVER_JACOBI(Z, he, cuDoubleComplex, double)
