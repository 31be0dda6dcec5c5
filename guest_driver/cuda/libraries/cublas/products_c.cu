#include "products.h"

BLAS_PRODUCTS(C, cuComplex)
BLAS_HERMITIAN_PRODUCTS(C, cuComplex, float)
