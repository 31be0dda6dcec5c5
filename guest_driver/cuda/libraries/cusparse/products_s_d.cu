#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_s_d, float, double, double, double)
