#include "finish.h"

LT_FINISH(bfloat, float, float, __nv_bfloat16)
LT_ADD(bfloat, float, __nv_bfloat16)
