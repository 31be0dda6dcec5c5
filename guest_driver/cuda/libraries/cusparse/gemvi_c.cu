#include "gemvi.h"

SPARSE_GEMVI(c, ComplexSingle)
