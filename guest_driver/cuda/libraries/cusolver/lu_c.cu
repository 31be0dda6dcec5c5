#include "lu.h"

SOLVER_LU(C, cuComplex)
