#pragma once
#include_next <cub/util_math.cuh>
#include <cub/version.cuh>

#include "../vgc_release.h"
#if CUB_MAJOR_VERSION >= 3
CUB_NAMESPACE_BEGIN
template <class Dividend, class Divisor> __VGC_CCCL_BOTH__ constexpr Dividend DivideAndRoundUp(Dividend n, Divisor d) {
    return static_cast<Dividend>(n / d + (n % d != 0));
}
CUB_NAMESPACE_END
#endif
