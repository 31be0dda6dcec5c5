#include "lu.h"

SOLVER_LU(Z, cuDoubleComplex)
