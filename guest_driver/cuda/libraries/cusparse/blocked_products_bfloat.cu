#include "narrow.h"

#include "product_types.h"
#include "products.h"

SPARSE_BLOCKED_PRODUCT(products_bfloat, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float)
