#include "symmetric.h"

SOLVER_SYMMETRIC(C, cuComplex)
