#include "bands.h"

SPARSE_BANDS(d, double)
