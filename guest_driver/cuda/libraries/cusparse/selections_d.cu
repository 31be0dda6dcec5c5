#include "selections.h"

SPARSE_SELECTION(d, double)
SPARSE_RANK(d, double)
