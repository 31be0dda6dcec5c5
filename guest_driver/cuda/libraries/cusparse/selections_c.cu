#include "selections.h"

SPARSE_SELECTION(c, ComplexSingle)
