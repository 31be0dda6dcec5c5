/* A firmware image: the elements' control code as a program of its own, which elements change to while they work. */
#include "modules.h"

extern "C" __device__ struct vgc_ctl_modules vgc_ctl_modules = VGC_CTL_MODULES;
