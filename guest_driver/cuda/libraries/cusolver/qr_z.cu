#include "reflectors.h"

SOLVER_QR(Z, un, cuDoubleComplex)
