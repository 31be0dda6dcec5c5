#include "sampled.h"

SPARSE_SAMPLED(sampled_z, ComplexDouble, ComplexDouble, ComplexDouble)
