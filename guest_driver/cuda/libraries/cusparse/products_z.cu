#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_z, ComplexDouble, ComplexDouble, ComplexDouble, ComplexDouble)
