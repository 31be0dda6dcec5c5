/* Stacks of the GPU's threads, and waiting for a whole context.
 *
 * "The driver automatically increases the per-thread stack size for each kernel launch as needed. This size isn't reset
 * back [...] Setting this value will take effect immediately, and if necessary, the device will block until all
 * preceding requested tasks are complete." [cuda.h, cuCtxSetLimit] Assumed: "the device will block" holds for
 * the caller, too; a context starts with the limit's default; a green context has its primary context's limits. */
#include "fake.h"

CUresult fake_context_wait(struct fake_context *context)
{
    while (!fake_sticky(context) && context->in_flight)
        fake_wait();
    return fake_sticky(context);
}

CUresult fake_stack_set(struct fake_context *context, size_t bytes)
{
    struct fake_context *primary = context->primary;
    if (!fake.settings.hardware.stack_growth || bytes == primary->stack_bytes)
        return CUDA_SUCCESS;
    fake.settings.hardware.stack_waits += primary->in_flight != 0;
    CUresult result = fake_context_wait(primary);
    if (!result)
        primary->stack_bytes = bytes;
    return result;
}

CUresult fake_stack_fit(struct fake_context *context, const struct fake_function *function)
{
    size_t needed = (size_t)function->local_bytes;
    return needed > context->primary->stack_bytes ? fake_stack_set(context, needed) : CUDA_SUCCESS;
}
