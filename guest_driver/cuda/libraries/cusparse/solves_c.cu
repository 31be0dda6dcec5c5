#include "solves.h"

SPARSE_SOLVE(c, ComplexSingle)
