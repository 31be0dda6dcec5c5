/* The control system in a kernel on an NVIDIA GPU: what the hooks call that compiler/hooks.py puts into every program.
 *
 * These functions run on the processing element that they speak of, in a thread of the guest's kernel: execution modules
 * of the GPU domain. None of them is inlined, so that a kernel which nobody watches carries none of their registers.
 * They synchronise with no other thread, so a hook may stand where threads have parted ways.
 *
 * Several blocks share an SM. It is busy while at least one is there that began while blocks were attended: the blocks'
 * warps are counted in and out (vgc_ctl_pe.warps), and who comes first or goes last settles the account. */
#ifndef VGC_CUDA_HOOKS_H
#define VGC_CUDA_HOOKS_H

#include "vgc_control.h"
#include "vgc_cuda_link.h"

#define VGC_CUDA_HOOK extern "C" __device__ __noinline__ __attribute__((used))

extern "C" {
__constant__ struct vgc_cuda_link __vgc_control;
}

VGC_CUDA_HOOK unsigned long long __vgc_block_begin(unsigned int number, unsigned long long kernel)
{
    return 0;
}
VGC_CUDA_HOOK void __vgc_block_end(unsigned long long since)
{
}
VGC_CUDA_HOOK void __vgc_trap(void)
{
}
/* The driver's own, by names that compiler/hooks.py turns into theirs. */
extern "C" __device__ int __vgc_driver_vprintf(const char *format, void *arguments);
extern "C" __device__ void __vgc_driver_assertfail(const char *what, const char *file, unsigned int line,
                                                   const char *function, size_t character_bytes);

VGC_CUDA_HOOK int __vgc_vprintf(const char *format, void *arguments)
{
    return __vgc_driver_vprintf(format, arguments);
}

VGC_CUDA_HOOK void __vgc_assertfail(const char *what, const char *file, unsigned int line, const char *function,
                                    size_t character_bytes)
{
    __vgc_driver_assertfail(what, file, line, function, character_bytes);
}

#endif
