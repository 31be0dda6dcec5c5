#include "reflectors.h"

SOLVER_QR(S, or, float)
