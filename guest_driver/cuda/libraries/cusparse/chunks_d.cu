#include "bands.h"

SPARSE_CHUNKS(d, double)
