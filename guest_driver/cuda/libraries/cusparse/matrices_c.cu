#include "matrices.h"

SPARSE_MATRICES(c, ComplexSingle)
