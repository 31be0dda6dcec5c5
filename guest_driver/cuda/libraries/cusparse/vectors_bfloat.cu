#include "narrow.h"

#include "vectors.h"

SPARSE_VECTORS(vectors_bfloat, __nv_bfloat16, __nv_bfloat16, float)
