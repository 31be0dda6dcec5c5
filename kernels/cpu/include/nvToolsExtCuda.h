/* nvtx3/nvToolsExtCuda.h declares the functions of this header. */
#pragma once
#include "nvtx3/nvToolsExtCuda.h"
