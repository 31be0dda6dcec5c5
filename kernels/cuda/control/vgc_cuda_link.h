/* A program's link to the control area on an NVIDIA GPU: its variable __vgc_control, which the engine sets when it
 * loads the program. The hooks in its kernels (compiler/hooks.py) read the first two members by their offsets. Included
 * by C11 (the engine) and by CUDA C++ (every source, through vgc_hooks.h). */
#ifndef VGC_CUDA_LINK_H
#define VGC_CUDA_LINK_H

#include "../../control/unit.h"

struct vgc_cuda_link {
    uint64_t pes;     /* device address of struct vgc_ctl_pe[num_pes], in the order of %smid */
    uint32_t num_pes; /* 0: no area is attached */
    uint32_t reserved;
    struct vgc_ctl_place place; /* with device addresses for pointers */
};

#endif
