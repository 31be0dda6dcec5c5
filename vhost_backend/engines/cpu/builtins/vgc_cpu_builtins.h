/* Built-in functions on the CPU engine: what libvgc-builtins.so exports.
 *
 * A call is a list of steps. A step is a number of blocks, which threads of the engine run in any order and side by
 * side; all blocks of a step end before the next step begins. Addresses in parameters are pointers of this process. */
#ifndef VGC_CPU_BUILTINS_H
#define VGC_CPU_BUILTINS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct vgc_builtin;

enum {
    VGC_CPU_STEPS = 64,     /* most steps of a call */
    VGC_CPU_WORKSPACE = 64, /* alignment of workspaces */
    VGC_CPU_SMALL = 16 << 10,
};

struct vgc_cpu_step {
    uint64_t blocks;
    void (*run)(const struct vgc_cpu_step *step, uint64_t block);
    const void *state; /* in the workspace */
};

/* Loads OpenBLAS, once, before the process closes itself in. `why` has VGC_BUILTIN_WHY bytes (vgc_builtins.h).
 * 0 or -ENOENT, with a text in `why`: then the functions that need it (vgc_cpu_builtin_usable) are not to be called. */
int vgc_cpu_builtins_open(const char *openblas_path, char *why);

/* Whether what the function needs is loaded. */
int vgc_cpu_builtin_usable(const struct vgc_builtin *builtin);

/* Bytes of scratch memory of a call, whose parameters have been checked (vgc_builtin_check). 0: the call is one block
 * at most, and VGC_CPU_SMALL bytes of the thread that plans and runs it are enough. */
uint64_t vgc_cpu_builtin_workspace(const struct vgc_builtin *builtin, const void *params, uint32_t num_pes);

/* Plans a call: fills in steps (there is room for VGC_CPU_STEPS) and returns their number, 0 if nothing is to be done.
 * `workspace` is at a multiple of VGC_CPU_WORKSPACE and belongs to the call until its last step has ended. Its contents
 * may be anything. No more than `num_pes` threads run blocks of the call at once. Only the workspace is written. */
uint32_t vgc_cpu_builtin_plan(const struct vgc_builtin *builtin, const void *params, void *workspace, uint32_t num_pes,
                              struct vgc_cpu_step *steps);

/* Why the call failed, as known after its last step: data of the VM, such as the indices of a sparse matrix, were
 * wrong. NULL: it did not. The text stays. Blocks of a failed call end without accessing anything else. */
const char *vgc_cpu_builtin_failed(const void *workspace);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
