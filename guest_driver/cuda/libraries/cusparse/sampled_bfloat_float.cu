#include "narrow.h"

#include "sampled.h"

SPARSE_SAMPLED(sampled_bfloat_float, __nv_bfloat16, float, float)
