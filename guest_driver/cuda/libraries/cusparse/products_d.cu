#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_d, double, double, double, double)
