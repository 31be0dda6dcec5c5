#include "symmetric.h"

SOLVER_SYMMETRIC(Z, cuDoubleComplex)
