#include "gemvi.h"

SPARSE_GEMVI(s, float)
