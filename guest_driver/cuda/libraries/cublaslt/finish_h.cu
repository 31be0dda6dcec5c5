#include "finish.h"

LT_FINISH(half, float, float, __half)
LT_ADD(half, float, __half)
