#include "products.h"

BLAS_PRODUCTS(S, float)
