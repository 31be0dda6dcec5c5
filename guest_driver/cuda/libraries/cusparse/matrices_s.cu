#include "matrices.h"

SPARSE_MATRICES(s, float)
