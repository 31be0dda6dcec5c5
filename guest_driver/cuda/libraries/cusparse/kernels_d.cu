#include "kernels.h"

VGC_SPARSE_UNIT(d, double)
