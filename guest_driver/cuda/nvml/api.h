/* Functions of NVML that the library exports. */
#pragma once
#include "nvml.h"

#define NV_API __attribute__((visibility("default")))
