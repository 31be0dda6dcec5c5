/* nvtx3/nvToolsExtCudaRt.h declares the functions of this header. */
#pragma once
#include "nvtx3/nvToolsExtCudaRt.h"
