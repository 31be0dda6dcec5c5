#include "selections.h"

SPARSE_SELECTION(z, ComplexDouble)
