#include "solves.h"

SPARSE_SOLVE(d, double)
