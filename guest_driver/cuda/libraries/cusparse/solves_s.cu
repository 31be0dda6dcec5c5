#include "solves.h"

SPARSE_SOLVE(s, float)
