#include "bands.h"

SPARSE_FIVE(d, double)
