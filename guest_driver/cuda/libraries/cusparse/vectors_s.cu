#include "vectors.h"

SPARSE_VECTORS(vectors_s, float, float, float)
