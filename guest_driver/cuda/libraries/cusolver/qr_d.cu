#include "reflectors.h"

SOLVER_QR(D, ormqr, orgqr, double)
