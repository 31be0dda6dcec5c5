#include "gemvi.h"

SPARSE_GEMVI(z, ComplexDouble)
