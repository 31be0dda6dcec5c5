#include "vectors.h"

SPARSE_VECTORS(vectors_z, ComplexDouble, ComplexDouble, ComplexDouble)
