/* LAUNCH: checks of function, geometry and parameters. */
#include "internal.h"

/* ---- checks ------------------------------------------------------------------------------------------------- */

static bool grid_is_valid(const uint32_t grid[3])
{
    return grid[0] >= 1 && grid[0] < UINT32_C(1) << 31 && grid[1] >= 1 && grid[1] < 65536 && grid[2] >= 1 &&
           grid[2] < 65536;
}

static uint64_t threads_of(const uint32_t block[3])
{
    for (int i = 0; i < 3; i++)
        if (block[i] > VGC_MAX_BLOCK_THREADS)
            return UINT64_MAX;
    return (uint64_t)block[0] * block[1] * block[2];
}

static uint32_t max_threads_of(const struct vgc_kernel *kernel)
{
    bool limited = kernel->max_threads != 0 && kernel->max_threads < VGC_MAX_BLOCK_THREADS;
    return limited ? kernel->max_threads : VGC_MAX_BLOCK_THREADS;
}

bool vgc_launch_flags_check(struct vgc_dp *dp, struct vgc_req *req, uint32_t flags)
{
    if ((flags & ~(uint32_t)VGC_LAUNCH_FLAG_COOPERATIVE) == 0)
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "flags are %#x; allowed: 0, %#x", flags, VGC_LAUNCH_FLAG_COOPERATIVE);
    return false;
}

const struct vgc_kernel *vgc_launch_check(struct vgc_dp *dp, struct vgc_req *req, struct vgc_function *function,
                                          const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes)
{
    const struct vgc_kernel *kernel = function->kernel;
    uint64_t threads = threads_of(block);
    if (!grid_is_valid(grid)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT,
                 "grid %u x %u x %u; allowed: 1..2147483647 x 1..65535 x 1..65535", grid[0], grid[1], grid[2]);
        return NULL;
    }
    if (kernel->builtin != NULL && (uint64_t)grid[0] * grid[1] * grid[2] != 1) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT,
                 "grid %u x %u x %u; allowed for %s, which is built in: 1 x 1 x 1", grid[0], grid[1], grid[2],
                 function->short_name);
        return NULL;
    }
    if (threads == 0 || threads > max_threads_of(kernel)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "block %u x %u x %u; allowed for %s: 1..%u threads", block[0],
                 block[1], block[2], function->short_name, max_threads_of(kernel));
        return NULL;
    }
    if ((uint64_t)kernel->shared_bytes + shared_bytes > dp->engine->max_shared_bytes) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%u static and %u dynamic bytes of shared memory; allowed: %u",
                 kernel->shared_bytes, shared_bytes, dp->engine->max_shared_bytes);
        return NULL;
    }
    return kernel;
}

/* ---- request ------------------------------------------------------------------------------------------------ */

struct vgc_function *vgc_prepare_launch(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_launch *launch,
                                        struct vgc_op *op)
{
    if (!vgc_launch_flags_check(dp, req, launch->flags))
        return NULL;
    struct vgc_function *function = vgc_function_find(dp, launch->function, vgc_context_number(dp, req->context));
    if (function == NULL) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "context %u has no function %u", req->request.context,
                 launch->function);
        return NULL;
    }
    const struct vgc_kernel *kernel =
        vgc_launch_check(dp, req, function, launch->grid, launch->block, launch->shared_bytes);
    if (kernel == NULL)
        return NULL;
    if (launch->param_len != kernel->param_bytes || launch->param_len > VGC_MAX_PARAM_BYTES) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "%u bytes of parameters; %s has %u", launch->param_len,
                 function->short_name, kernel->param_bytes);
        return NULL;
    }
    op->kernel = kernel;
    memcpy(op->grid, launch->grid, sizeof(op->grid));
    memcpy(op->block, launch->block, sizeof(op->block));
    op->shared_bytes = launch->shared_bytes;
    op->flags = launch->flags;
    op->param_len = launch->param_len;
    return function;
}

void vgc_serve_launch(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_launch *launch = &req->body.launch;
    if (!vgc_expect_trailing(dp, req, sizeof(*launch), launch->param_len))
        return;
    vgc_op_init(req, &req->op, VGC_OPK_LAUNCH);
    struct vgc_function *function = vgc_prepare_launch(dp, req, launch, &req->op);
    if (function == NULL)
        return;
    vgc_gather(req->chain.spans, sizeof(req->request) + sizeof(*launch), req->params, launch->param_len);
    atomic_signal_fence(memory_order_seq_cst);
    req->op.params = req->params;
    if (!vgc_builtin_check_params(dp, req, req->op.kernel, req->params, NULL))
        return;
    if (vgc_workspace_get(dp, req, &req->op) != 0) {
        vgc_complete(dp, req, VGC_STATUS_OUT_OF_MEMORY, 0);
        return;
    }
    vgc_tally_launch(dp, req, function);
    vgc_launch_watch(dp, req, &req->op);
    vgc_submit(dp, req, &req->op);
}
