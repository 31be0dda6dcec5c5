#include "factors.h"

SPARSE_FACTOR(lu_c, ComplexSingle, true)
