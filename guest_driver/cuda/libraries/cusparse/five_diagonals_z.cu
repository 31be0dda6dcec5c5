#include "bands.h"

SPARSE_FIVE(z, ComplexDouble)
