#include "matrices.h"

SPARSE_MATRICES(d, double)
