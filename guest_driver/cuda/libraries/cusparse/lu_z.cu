#include "factors.h"

SPARSE_FACTOR(lu_z, ComplexDouble, true)
