#include "reflectors.h"

SOLVER_QR(Z, unmqr, ungqr, cuDoubleComplex)
