#include "vectors_ex.h"

BLAS_NARROW_VECTORS(half_vectors, __half)
