#include "finish.h"

LT_FINISH(complex, complex<float>, complex<float>, complex<float>)
LT_ADD(complex, complex<float>, complex<float>)
