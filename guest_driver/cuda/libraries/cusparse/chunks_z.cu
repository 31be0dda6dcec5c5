#include "bands.h"

SPARSE_CHUNKS(z, ComplexDouble)
