/* Types of pointers to functions of the driver API, for host code that asks cuGetProcAddress for them. */
#pragma once
#include "cuda.h"

#define __VGC_POINTER(name, version)                                                                                                   \
    typedef decltype(&::name) PFN_##name;                                                                                              \
    typedef decltype(&::name) PFN_##name##_##version;
__VGC_POINTER(cuGetProcAddress, v12000)
__VGC_POINTER(cuLaunchKernel, v4000)
__VGC_POINTER(cuLaunchKernelEx, v11060)
__VGC_POINTER(cuTensorMapEncodeTiled, v12000)
#undef __VGC_POINTER
