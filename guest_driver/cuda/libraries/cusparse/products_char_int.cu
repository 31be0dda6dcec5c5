#include "product_types.h"
#include "products.h"

SPARSE_PRODUCT(products_char_int, signed char, signed char, int, int)
