#include "bands.h"

SPARSE_BANDS(z, ComplexDouble)
