#include "narrow.h"

#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_half_float, __half, __half, float, float)
