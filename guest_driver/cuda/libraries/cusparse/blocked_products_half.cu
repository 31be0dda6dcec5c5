#include "narrow.h"

#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_half, __half, __half, __half, float)
