#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_z, ComplexDouble, ComplexDouble, ComplexDouble, ComplexDouble)
