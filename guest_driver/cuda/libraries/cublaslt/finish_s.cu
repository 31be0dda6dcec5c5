#include "finish.h"

LT_FINISH(float, float, float, float)
LT_ADD(float, float, float)
