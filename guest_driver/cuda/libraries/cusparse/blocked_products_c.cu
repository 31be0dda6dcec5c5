#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_c, ComplexSingle, ComplexSingle, ComplexSingle, ComplexSingle)
