/* What device code may use of it comes with cuda_runtime.h. */
#pragma once
#include "cuda_runtime.h"
