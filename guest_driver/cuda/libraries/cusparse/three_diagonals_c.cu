#include "bands.h"

SPARSE_BANDS(c, ComplexSingle)
