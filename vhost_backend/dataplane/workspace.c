/* Workspaces: device memory for launches that need some while they run, for example for all blocks of a grid at once.
 *
 * Launches of a stream run one after the other, so they share a workspace. It is charged to the VM's quota like the
 * buffers of CALLs, and kept like these when no launch needs it any longer. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>

static struct vgc_workspace *find(struct vgc_dp *dp, uint32_t context, uint32_t stream, uint64_t size)
{
    struct vgc_workspace *free_entry = NULL;
    for (uint32_t i = 0; i < VGC_WORKSPACES; i++) {
        struct vgc_workspace *workspace = &dp->workspaces[i];
        if (workspace->users == 0)
            free_entry = workspace;
        else if (workspace->context == context && workspace->stream == stream && workspace->size >= size &&
                 !workspace->is_spoilt)
            return workspace;
    }
    return free_entry;
}

static int refuse(struct vgc_op *op, const char *format, uint64_t needed, uint64_t available)
{
    snprintf(op->error, sizeof(op->error), format, (unsigned long)needed, (unsigned long)available);
    return -ENOMEM;
}

int vgc_workspace_get(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op)
{
    uint64_t size = dp->engine->ops->launch_bytes == NULL ? 0 : dp->engine->ops->launch_bytes(dp->engine, op);
    if (VGC_LIKELY(size == 0))
        return 0;
    uint32_t context = vgc_context_number(dp, req->context);
    struct vgc_workspace *workspace = find(dp, context, op->stream, size);
    if (workspace == NULL)
        return refuse(op, "a launch needs %lu bytes while it runs; %lu streams run such launches already", size,
                      VGC_WORKSPACES);
    if (workspace->users == 0) {
        uint64_t given = size;
        uint64_t address;
        if (vgc_temp_get(dp, &given, &address) != 0)
            return refuse(op, "the launch needs %lu bytes while it runs; %lu bytes are free", size,
                          vgc_memory_left(dp));
        *workspace =
            (struct vgc_workspace){.address = address, .size = given, .context = context, .stream = op->stream};
    }
    workspace->users++;
    req->workspace = workspace;
    op->workspace = workspace->address;
    op->workspace_bytes = workspace->size;
    return 0;
}

void vgc_workspace_put(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_op *op)
{
    struct vgc_workspace *workspace = req->workspace;
    req->workspace = NULL;
    workspace->is_spoilt |= op->workspace == 0;
    if (--workspace->users != 0)
        return;
    if (workspace->is_spoilt)
        vgc_temp_free(dp, workspace->address, workspace->size);
    else
        vgc_temp_put(dp, workspace->address, workspace->size);
}
