#include "bands.h"

SPARSE_FIVE(c, ComplexSingle)
