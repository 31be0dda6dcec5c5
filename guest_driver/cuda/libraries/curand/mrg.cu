#include "pseudo.h"

VGC_RAND_FAMILY(mrg, curandStateMRG32k3a_t, 81920, 4096, group_of_pairs)
