#pragma once
#include_next <cub/thread/thread_sort.cuh>
#include <cub/version.cuh>
#if CUB_MAJOR_VERSION >= 3
CUB_NAMESPACE_BEGIN
template <class T> __device__ __forceinline__ void Swap(T &a, T &b) {
    T old = a;
    a = b;
    b = old;
}
CUB_NAMESPACE_END
#endif
