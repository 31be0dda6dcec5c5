#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_char_float, signed char, signed char, float, float)
