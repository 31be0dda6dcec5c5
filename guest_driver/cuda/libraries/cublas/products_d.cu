#include "products.h"

BLAS_PRODUCTS(D, double)
