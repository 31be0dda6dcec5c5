#include "reflectors.h"

SOLVER_QR(S, ormqr, orgqr, float)
