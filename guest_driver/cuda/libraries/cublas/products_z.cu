#include "products.h"

BLAS_PRODUCTS(Z, cuDoubleComplex)
BLAS_HERMITIAN_PRODUCTS(Z, cuDoubleComplex, double)
