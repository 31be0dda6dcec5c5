#include "factors.h"

SPARSE_FACTOR(lu_d, double, true)
