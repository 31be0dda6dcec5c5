#include "reflectors.h"

SOLVER_QR(D, or, double)
