#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_d_z, double, ComplexDouble, ComplexDouble, ComplexDouble)
