/* Functions of <vgc.h> on an NVIDIA GPU. */
#ifndef VGC_CUDA_DEVICE_API_H
#define VGC_CUDA_DEVICE_API_H

#include "control.h"
#include "vgc_place.h"

#define VGC_CUDA_API extern "C" __device__ __noinline__

VGC_CUDA_API uint32_t __vgc_ctl_level(uint32_t function)
{
    struct vgc_cuda_unit here(0);
    uint64_t word = here.unit.pe == 0 ? 0 : vgc_ctl_bound(&here.unit, function);
    uint32_t level = vgc_ctl_bind_level(word);
    return word == 0 ? 0 : level == 0 ? 1 : level;
}

VGC_CUDA_API int __vgc_ctl_emit(uint32_t function, uint32_t type, uint32_t level, const void *payload, uint32_t length)
{
    struct vgc_cuda_unit here(0);
    const uint8_t *bytes = (const uint8_t *)payload;
    struct vgc_ctl_message message = {function, level, type, length, bytes, 0, false};
    if (here.unit.pe == 0)
        return 0;
    if (function == VGC_CTL_FAULT)
        return vgc_ctl_fault_emit(&here.unit, type, level, bytes, length);
    return vgc_ctl_emit(&here.unit, &message);
}

VGC_CUDA_API void __vgc_ctl_count(const char *name, int64_t delta)
{
    struct vgc_cuda_unit here(0);
    if (here.unit.pe != 0)
        vgc_ctl_perf_count(&here.unit, (uint64_t)(uintptr_t)name, delta);
}

VGC_CUDA_API void __vgc_ctl_gauge(const char *name, double value)
{
    struct vgc_cuda_unit here(0);
    if (here.unit.pe != 0)
        vgc_ctl_perf_gauge(&here.unit, (uint64_t)(uintptr_t)name, value);
}

VGC_CUDA_API uint32_t __vgc_ctl_read(void *to, uint32_t size)
{
    struct vgc_cuda_unit here(0);
    return here.unit.pe == 0 ? 0 : vgc_ctl_stdio_read(&here.unit, (uint8_t *)to, size);
}

/* Always true: a launch is stopped by ending its worker, and the kernel with it. */
VGC_CUDA_API int __vgc_ctl_poll(void)
{
    struct vgc_cuda_unit here(0);
    if (here.unit.pe != 0)
        vgc_ctl_poll(&here.unit);
    return 1;
}

#endif
