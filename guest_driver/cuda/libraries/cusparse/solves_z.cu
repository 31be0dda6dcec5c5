#include "solves.h"

SPARSE_SOLVE(z, ComplexDouble)
