#include "factors.h"

SPARSE_FACTOR(lu_s, float, true)
