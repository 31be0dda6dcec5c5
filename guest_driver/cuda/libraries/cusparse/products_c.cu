#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_c, ComplexSingle, ComplexSingle, ComplexSingle, ComplexSingle)
