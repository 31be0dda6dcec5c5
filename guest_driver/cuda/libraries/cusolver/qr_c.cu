#include "reflectors.h"

SOLVER_QR(C, unmqr, ungqr, cuComplex)
