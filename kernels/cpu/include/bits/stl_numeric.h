/* The functions of this header are for device code too, as those of C++20 that are constexpr. */
#pragma once
#if defined(__CUDACC__) && !defined(__VGC_HOST_HALF__)
#pragma clang force_cuda_host_device begin
#include_next <bits/stl_numeric.h>
#pragma clang force_cuda_host_device end
#else
#include_next <bits/stl_numeric.h>
#endif
