#include "lu.h"

SOLVER_LU(D, double)
