/* Plans in the making, for the planners of the groups of functions. */
#ifndef CUDA_BUILTINS_PLAN_H
#define CUDA_BUILTINS_PLAN_H

#include "cuda_builtins.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"
#include "vhost_backend/builtins/vgc_builtins.h"

/* Launches and workspace of a call. While the workspace is measured, there are no launches and its address is 0. */
struct plan {
    const struct vgc_builtin *builtin;
    const char *module;
    uint32_t num_sms;
    uint64_t workspace;
    uint64_t bytes;                       /* of the workspace that are taken */
    uint64_t most_bytes;                  /* that have been taken at once */
    struct cuda_builtin_launch *launches; /* NULL while measuring */
    uint32_t num_launches;
};

/* Kernel that belongs to the type of a call: `group_function_type`, then `suffix`. */
struct kernel_name {
    char text[CUDA_BUILTIN_NAME];
};
struct kernel_name plan_kernel(const struct plan *plan, const char *suffix);

/* Kernel `stem` for each of two types: `stem_first`, or `stem_first_second`; a NULL is left out. */
struct kernel_name plan_kernel_of(const char *stem, const char *first, const char *second);

/* Name of a type: "f32". */
const char *plan_type(uint32_t type);

/* Address of `bytes` bytes of the workspace. */
uint64_t plan_take(struct plan *plan, uint64_t bytes);

/* Gives back what has been taken since plan->bytes was `bytes`: later launches may use it. */
void plan_give_back(struct plan *plan, uint64_t bytes);

/* Address of the status word; the first that is taken of the workspace. */
uint64_t plan_take_status(struct plan *plan);

/* Adds a launch of `blocks` blocks of PLAN_THREADS threads; none of 0 blocks. */
void plan_add(struct plan *plan, const struct kernel_name *kernel, uint64_t blocks, uint32_t shared_bytes,
              const void *params, uint32_t param_bytes);

/* Blocks of kernels that loop: enough for `items` with `per_block` each, but no more than keep all SMs busy. */
uint64_t plan_blocks(const struct plan *plan, uint64_t items, uint64_t per_block);

static inline uint64_t plan_divide_up(uint64_t items, uint64_t by)
{
    return items / by + (items % by != 0);
}

static inline uint64_t plan_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t plan_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
