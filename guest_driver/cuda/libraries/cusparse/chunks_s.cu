#include "bands.h"

SPARSE_CHUNKS(s, float)
