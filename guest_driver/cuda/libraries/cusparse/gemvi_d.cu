#include "gemvi.h"

SPARSE_GEMVI(d, double)
