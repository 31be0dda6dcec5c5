#include "cholesky.h"

SOLVER_CHOLESKY(Z, cuDoubleComplex)
