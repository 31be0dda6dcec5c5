#include "lu.h"

SOLVER_LU(S, float)
