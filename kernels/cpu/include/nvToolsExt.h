/* nvtx3/nvToolsExt.h declares the functions of this header. */
#pragma once
#include "nvtx3/nvToolsExt.h"
