#include "sampled.h"

SPARSE_SAMPLED(sampled_d, double, double, double)
