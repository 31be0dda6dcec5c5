#include "cholesky.h"

SOLVER_CHOLESKY(D, double)
