#include "finish.h"

LT_FINISH(double_complex, complex<double>, complex<double>, complex<double>)
LT_ADD(double_complex, complex<double>, complex<double>)
