#include "vectors_ex.h"

BLAS_NARROW_VECTORS(bfloat_vectors, __nv_bfloat16)
