#include "pseudo.h"

VGC_RAND_FAMILY(xorwow, curandStateXORWOW_t, 4096, 4096, group_of_pairs)
