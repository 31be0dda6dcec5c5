/* Plans of calls. */
#include "plan.h"

#include "calls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Blocks of an SM that keep it busy, of kernels that use few resources. */
enum { BLOCKS_PER_SM = 8 };

const char *plan_type(uint32_t type)
{
    static const char *const NAMES[VGC_NUM_TYPES] = {
        [VGC_TYPE_F16] = "f16", [VGC_TYPE_F32] = "f32", [VGC_TYPE_F64] = "f64", [VGC_TYPE_I32] = "i32",
        [VGC_TYPE_I64] = "i64", [VGC_TYPE_U32] = "u32", [VGC_TYPE_U64] = "u64", [VGC_TYPE_B8] = "b8",
    };
    return NAMES[type];
}

struct kernel_name plan_kernel(const struct plan *plan, const char *suffix)
{
    struct kernel_name kernel;
    snprintf(kernel.text, sizeof(kernel.text), "%s%s", plan->builtin->name, suffix);
    *strchr(kernel.text, '.') = '_';
    return kernel;
}

struct kernel_name plan_kernel_of(const char *stem, const char *first, const char *second)
{
    struct kernel_name kernel;
    snprintf(kernel.text, sizeof(kernel.text), "%s%s%s%s%s", stem, first != NULL ? "_" : "", first != NULL ? first : "",
             second != NULL ? "_" : "", second != NULL ? second : "");
    return kernel;
}

uint64_t plan_take(struct plan *plan, uint64_t bytes)
{
    uint64_t address = plan->workspace + plan->bytes;
    plan->bytes += plan_divide_up(bytes, CUDA_BUILTIN_ALIGNMENT) * CUDA_BUILTIN_ALIGNMENT;
    plan->most_bytes = plan_max(plan->most_bytes, plan->bytes);
    return address;
}

void plan_give_back(struct plan *plan, uint64_t bytes)
{
    plan->bytes = bytes;
}

uint64_t plan_take_status(struct plan *plan)
{
    assert(plan->bytes == 0);
    return plan_take(plan, sizeof(uint32_t));
}

void plan_add(struct plan *plan, const struct kernel_name *kernel, uint64_t blocks, uint32_t shared_bytes,
              const void *params, uint32_t param_bytes)
{
    if (blocks == 0)
        return;
    if (plan->launches != NULL) {
        struct cuda_builtin_launch *launch = &plan->launches[plan->num_launches];
        assert(plan->num_launches < CUDA_BUILTIN_LAUNCHES && param_bytes <= CUDA_BUILTIN_PARAMS && blocks <= INT32_MAX);
        launch->module = plan->module;
        memcpy(launch->kernel, kernel->text, sizeof(launch->kernel));
        launch->blocks = (uint32_t)blocks;
        launch->threads = THREADS;
        launch->shared_bytes = shared_bytes;
        launch->param_bytes = param_bytes;
        memcpy(launch->params, params, param_bytes);
    }
    plan->num_launches++;
}

uint64_t plan_blocks(const struct plan *plan, uint64_t items, uint64_t per_block)
{
    return plan_min(plan_divide_up(items, per_block), (uint64_t)plan->num_sms * BLOCKS_PER_SM);
}
