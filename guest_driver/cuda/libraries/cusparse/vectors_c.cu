#include "vectors.h"

SPARSE_VECTORS(vectors_c, ComplexSingle, ComplexSingle, ComplexSingle)
