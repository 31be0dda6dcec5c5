#include "sampled.h"

SPARSE_SAMPLED(sampled_s, float, float, float)
