#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_s_d, float, double, double, double)
