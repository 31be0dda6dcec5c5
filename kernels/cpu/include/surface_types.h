#pragma once
#include "cuda_runtime.h"
#include "texture_types.h"
