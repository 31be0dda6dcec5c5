#include "kernels.h"

VGC_SPARSE_UNIT(z, double2)
