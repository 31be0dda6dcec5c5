#include "bands.h"

SPARSE_CHUNKS(c, ComplexSingle)
