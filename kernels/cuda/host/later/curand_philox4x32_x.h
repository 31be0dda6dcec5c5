/* See there; for hosts whose toolkit lacks the header. */
#pragma once
#include "../../../cpu/include/curand_philox4x32_x.h"
