/* See there; for hosts whose toolkit lacks the header. */
#pragma once
#include "../../../cpu/include/curand_normal.h"
