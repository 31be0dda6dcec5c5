#include "symmetric.h"

SOLVER_SYMMETRIC(S, float)
