/* Groups of functions; each stands in the file of its name. */
#ifndef VGC_BUILTIN_GROUPS_H
#define VGC_BUILTIN_GROUPS_H

#include "vgc_builtins.h"

extern const struct vgc_builtin_group vgc_builtin_blas;
extern const struct vgc_builtin_group vgc_builtin_reduce;
extern const struct vgc_builtin_group vgc_builtin_scan;
extern const struct vgc_builtin_group vgc_builtin_sort;
extern const struct vgc_builtin_group vgc_builtin_count;
extern const struct vgc_builtin_group vgc_builtin_fft;
extern const struct vgc_builtin_group vgc_builtin_conv;
extern const struct vgc_builtin_group vgc_builtin_random;
extern const struct vgc_builtin_group vgc_builtin_sparse;
extern const struct vgc_builtin_group vgc_builtin_math;
extern const struct vgc_builtin_group vgc_builtin_select;
extern const struct vgc_builtin_group vgc_library_cublas;
extern const struct vgc_builtin_group vgc_library_cudnn;
extern const struct vgc_builtin_group vgc_library_cudnn_norms;
extern const struct vgc_builtin_group vgc_library_cufft;

#endif
