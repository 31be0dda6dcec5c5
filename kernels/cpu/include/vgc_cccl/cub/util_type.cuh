#pragma once
#include_next <cub/util_type.cuh>
#include <cub/version.cuh>

#include "../vgc_release.h"
#if CUB_MAJOR_VERSION >= 3
#include <cuda/std/limits>
CUB_NAMESPACE_BEGIN
template <int number> struct Int2Type {
    enum { VALUE = number };
};
template <class T, int count> struct ArrayWrapper {
    T array[count];
    __VGC_CCCL_BOTH__ ArrayWrapper() {}
};
template <class T> struct FpLimits {
    static __VGC_CCCL_BOTH__ T Max() { return ::cuda::std::numeric_limits<T>::max(); }
    static __VGC_CCCL_BOTH__ T Lowest() { return ::cuda::std::numeric_limits<T>::lowest(); }
};
CUB_NAMESPACE_END
#endif
