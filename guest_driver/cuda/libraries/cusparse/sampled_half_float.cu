#include "narrow.h"

#include "sampled.h"

SPARSE_SAMPLED(sampled_half_float, __half, float, float)
