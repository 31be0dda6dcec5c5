#include "selections.h"

SPARSE_SELECTION(s, float)
SPARSE_RANK(s, float)
