#include "vectors.h"

SPARSE_VECTORS(vectors_d, double, double, double)
