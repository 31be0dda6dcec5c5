#include "finish.h"

LT_FINISH(int, int, int, int)
LT_ADD(int, int, int)
LT_FINISH(char, int, float, signed char)
LT_ADD(char, float, signed char)
