#include "cholesky.h"

SOLVER_CHOLESKY(S, float)
