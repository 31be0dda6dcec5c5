#include "bands.h"

SPARSE_BANDS(s, float)
