/* Built-in functions on the CUDA engine: plans of calls.
 *
 * A call is a list of launches, in order, of kernels in a module (`*.cu`) of this folder. Nothing here calls CUDA. */
#ifndef CUDA_BUILTINS_H
#define CUDA_BUILTINS_H

#include <stdbool.h>
#include <stdint.h>

struct vgc_builtin;

enum {
    CUDA_BUILTIN_LAUNCHES = 64,   /* most launches of a call */
    CUDA_BUILTIN_ALIGNMENT = 256, /* of workspaces */
    CUDA_BUILTIN_NAME = 48,       /* bytes of a kernel's name, with its zero */
    CUDA_BUILTIN_PARAMS = 256,    /* most bytes of a parameter block */
    CUDA_BUILTIN_MODULES = 11,
};

/* Name of a module's file, without its ending; NULL behind the last one. */
const char *cuda_builtin_module(uint32_t number);

/* Number of the module that has the kernels of a function. */
uint32_t cuda_builtin_module_of(const struct vgc_builtin *builtin);

struct cuda_builtin_launch {
    const char *module; /* name of the module's file, without its ending */
    char kernel[CUDA_BUILTIN_NAME];
    uint32_t blocks, threads; /* along x */
    uint32_t shared_bytes;    /* dynamic ones, at most 48 KiB */
    uint32_t param_bytes;
    uint64_t params[CUDA_BUILTIN_PARAMS / 8]; /* the kernel's only parameter, a struct */
};

/* Bytes of scratch memory of a call, whose parameters and ranges have been checked; 0: it takes none. */
uint64_t cuda_builtin_workspace(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms);

/* Plans a call: fills in launches (there is room for CUDA_BUILTIN_LAUNCHES, or NULL: they are only counted) and returns
 * their number, 0 if nothing is to be done. `workspace` is an address of device memory at a multiple of
 * CUDA_BUILTIN_ALIGNMENT, whose contents may be anything; it belongs to the call until its last launch has ended. */
uint32_t cuda_builtin_plan(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms, uint64_t workspace,
                           struct cuda_builtin_launch *launches);

/* Whether a call may fail because of data in the VM's memory. Only then its workspace begins with a status word of four
 * bytes, which its first launch clears. */
bool cuda_builtin_may_fail(const struct vgc_builtin *builtin);

/* Why a call failed; NULL: it did not. The text stays. */
const char *cuda_builtin_failed(uint32_t status);

#endif
