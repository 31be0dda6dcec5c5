#include "narrow.h"

#include "sampled.h"

SPARSE_SAMPLED(sampled_half, __half, __half, float)
