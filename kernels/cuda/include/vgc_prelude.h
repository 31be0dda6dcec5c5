/* What NVRTC lacks of that which nvcc puts before every source. The folder's other headers are the C and C++ standard
 * ones as device code uses them: NVRTC has none, and the host's must not be read. nvcc gets none of this. */
#pragma once

/* NVRTC refuses functions that are for the host alone. Without the word they are device functions that nobody calls. */
#undef __host__
#define __host__

#include "assert.h"
#include "math.h"
#include "stddef.h"
