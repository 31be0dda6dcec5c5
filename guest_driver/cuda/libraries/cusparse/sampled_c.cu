#include "sampled.h"

SPARSE_SAMPLED(sampled_c, ComplexSingle, ComplexSingle, ComplexSingle)
