#include "jacobi.h"

SOLVER_JACOBI(D, sy, double, double)
