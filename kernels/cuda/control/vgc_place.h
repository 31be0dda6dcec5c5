/* Place of a kernel's thread: the program's link to the control area, and the thread's processing element. */
#ifndef VGC_CUDA_PLACE_H
#define VGC_CUDA_PLACE_H

#include "vgc_cuda_link.h"

extern "C" {
__constant__ struct vgc_cuda_link __vgc_control;
}

VGC_CTL_FN uint32_t vgc_cuda_smid(void)
{
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

VGC_CTL_FN uint64_t vgc_cuda_gridid(void)
{
    uint64_t number;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(number));
    return number;
}

/* Processing element of the calling thread; `pe` is NULL if the control area has no row for it. */
struct vgc_cuda_unit {
    struct vgc_ctl_unit unit;

    __device__ explicit vgc_cuda_unit(uint64_t kernel)
    {
        const struct vgc_cuda_link &link = __vgc_control;
        uint32_t number = vgc_cuda_smid();
        uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        unit.place = &link.place;
        unit.pe = number < link.num_pes ? (struct vgc_ctl_pe *)link.pes + number : 0;
        unit.kernel = kernel;
        unit.launch = vgc_cuda_gridid();
        unit.block = blockIdx.x + (uint64_t)gridDim.x * (blockIdx.y + (uint64_t)gridDim.y * blockIdx.z);
        unit.warp = thread / 32;
        unit.threads = blockDim.x * blockDim.y * blockDim.z;
        unit.number = number;
        unit.stop = 0;
        unit.relax = 0;
    }

    __device__ uint32_t warps() const
    {
        return (unit.threads + 31) / 32;
    }
};

#endif
