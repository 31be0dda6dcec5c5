#include "symmetric.h"

SOLVER_SYMMETRIC(D, double)
