#include "cholesky.h"

SOLVER_CHOLESKY(C, cuComplex)
