#include "jacobi.h"

SOLVER_JACOBI(S, sy, float, float)
