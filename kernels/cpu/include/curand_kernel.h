/* cuRAND's device functions. */
#pragma once
#ifdef __CUDACC__
#include "vgc_rand_poisson.h"
#else
#include "vgc_rand_bits.h"
#endif
