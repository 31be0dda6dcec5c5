#include "matrices.h"

SPARSE_MATRICES(z, ComplexDouble)
