#include "bands.h"

SPARSE_FIVE(s, float)
