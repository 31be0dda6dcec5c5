#include "narrow.h"

#include "sampled.h"

SPARSE_SAMPLED(sampled_bfloat, __nv_bfloat16, __nv_bfloat16, float)
