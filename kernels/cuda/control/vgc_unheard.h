/* Empty functions of <vgc.h> for a program that is compiled without hooks: no channel is bound, no input comes, no
 * launch is being stopped. The compile program includes this before sources that may include <vgc.h>. */
#ifndef VGC_CUDA_UNHEARD_H
#define VGC_CUDA_UNHEARD_H

#include "../../control/include/vgc.h"

#define VGC_CUDA_UNHEARD extern "C" __device__ __forceinline__ __attribute__((unused))

VGC_CUDA_UNHEARD uint32_t __vgc_ctl_level(uint32_t)
{
    return 0;
}

VGC_CUDA_UNHEARD int __vgc_ctl_emit(uint32_t, uint32_t, uint32_t, const void *, uint32_t)
{
    return 0;
}

VGC_CUDA_UNHEARD void __vgc_ctl_count(const char *, int64_t)
{
}

VGC_CUDA_UNHEARD void __vgc_ctl_gauge(const char *, double)
{
}

VGC_CUDA_UNHEARD uint32_t __vgc_ctl_read(void *, uint32_t)
{
    return 0;
}

VGC_CUDA_UNHEARD int __vgc_ctl_poll(void)
{
    return 1;
}

#endif
