#include "finish.h"

LT_FINISH(double, double, double, double)
LT_ADD(double, double, double)
