/* cuda_runtime.h declares the parts of this header that device code may use. */
#pragma once
#include "cuda_runtime.h"
