/* Words of the binding table: the channel that a function has on a processing element, 0 for no channel. The host
 * writes a word in one store, while kernels run. */
#ifndef VGC_CONTROL_BINDING_H
#define VGC_CONTROL_BINDING_H

#include "platform.h"
#include "vgc_control.h"

VGC_CTL_FN uint64_t vgc_ctl_bind(uint32_t generation, uint32_t channel, uint32_t level, uint32_t sample_shift)
{
    return (uint64_t)generation << 32 | (uint64_t)(channel & 0xffff) << 16 | (uint64_t)(level & 0xff) << 8 |
           (sample_shift & 0xff);
}

VGC_CTL_FN uint32_t vgc_ctl_bind_generation(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

VGC_CTL_FN uint32_t vgc_ctl_bind_channel(uint64_t word)
{
    return (uint32_t)(word >> 16 & 0xffff);
}

VGC_CTL_FN uint32_t vgc_ctl_bind_level(uint64_t word)
{
    return (uint32_t)(word >> 8 & 0xff);
}

/* Sampling shift: one record of 2^shift is kept. */
VGC_CTL_FN uint32_t vgc_ctl_bind_sample(uint64_t word)
{
    return (uint32_t)(word & 0xff);
}

#endif
