/* Definitions that nvcc puts before every source and NVRTC lacks. The folder's other headers are the C and C++ standard
 * headers, reduced to device code: NVRTC has none, and the host's must not be read. nvcc does not use this folder. */
#pragma once

/* NVRTC refuses functions for the host alone. Without the keyword they are unused device functions. */
#undef __host__
#define __host__

#include "assert.h"
#include "math.h"
#include "stddef.h"
#include "vgc_old_warps.h"
