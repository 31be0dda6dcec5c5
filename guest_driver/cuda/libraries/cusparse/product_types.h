// Products for each combination of types, in units of their own.
#pragma once
#include "work.h"

namespace vgc_sparse
{
ProductLaunch products_s, products_d, products_c, products_z, products_half, products_half_float, products_bfloat,
    products_bfloat_float, products_char_int, products_char_float, products_s_c, products_d_z, products_s_d;
ProductLaunch blocked_products_s, blocked_products_d, blocked_products_c, blocked_products_z, blocked_products_half,
    blocked_products_half_float, blocked_products_bfloat, blocked_products_bfloat_float, blocked_products_char_int,
    blocked_products_char_float, blocked_products_s_c, blocked_products_d_z, blocked_products_s_d;
} // namespace vgc_sparse
