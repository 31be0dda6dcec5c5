/* Where nvcc looks; see there. */
#pragma once
#include "../include/vgc_references.h"
