/* The functions of this header are for device code too, as those of C++20 that are constexpr. */
#pragma once
#pragma clang force_cuda_host_device begin
#include_next <bits/stl_numeric.h>
#pragma clang force_cuda_host_device end
