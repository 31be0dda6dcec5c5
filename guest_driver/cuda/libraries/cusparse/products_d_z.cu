#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_d_z, double, ComplexDouble, ComplexDouble, ComplexDouble)
