#include "kernels.h"

VGC_SPARSE_UNIT(c, float2)
