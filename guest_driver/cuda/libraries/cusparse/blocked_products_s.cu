#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_s, float, float, float, float)
