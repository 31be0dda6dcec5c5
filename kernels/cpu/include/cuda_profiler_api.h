/* cuda_runtime_api.h declares the functions of this header. */
#pragma once
#include "cuda_runtime_api.h"
