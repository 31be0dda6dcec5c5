#include "kernels.h"

VGC_SPARSE_UNIT(s, float)
