#include "narrow.h"

#include "vectors.h"

SPARSE_VECTORS(vectors_half, __half, __half, float)
