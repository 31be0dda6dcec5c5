#include "reflectors.h"

SOLVER_QR(C, un, cuComplex)
