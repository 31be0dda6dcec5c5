#pragma once
#include "cuda_runtime.h"
#include "vgc_surface.h"
