/* The line of a context: its requests whose operations the engine has, oldest first, of all streams.
 *
 * FREE and PROGRAM_UNLOAD remove memory or kernels that earlier requests of any stream may still use. They wait in the
 * line, with no operation of their own, and act when no request is ahead of them. Later requests may not use what they
 * remove, and do not wait.
 *
 * What is the VM's may be used by requests of all contexts: its PROGRAM_UNLOAD waits beside the lines, until those that
 * joined any of them before it have left. */
#include "internal.h"

void vgc_line_join(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_context *context = req->context;
    if (context == NULL || req->in_line)
        return;
    req->in_line = true;
    req->line_number = dp->lines_joined++;
    req->older = context->newest;
    req->newer = NULL;
    if (context->newest != NULL)
        context->newest->newer = req;
    else
        context->oldest = req;
    context->newest = req;
}

static void step_out(struct vgc_req *req)
{
    struct vgc_context *context = req->context;
    req->in_line = false;
    if (req->older != NULL)
        req->older->newer = req->newer;
    else
        context->oldest = req->newer;
    if (req->newer != NULL)
        req->newer->older = req->older;
    else
        context->newest = req->older;
}

/* True if a request that joined a line before has not left it. */
static bool any_before(const struct vgc_dp *dp, uint64_t line_number)
{
    for (uint32_t i = 0; i < VGC_MAX_CONTEXTS; i++) {
        const struct vgc_req *oldest = dp->contexts[i].oldest;
        if (oldest != NULL && oldest->line_number < line_number)
            return true;
    }
    return false;
}

/* Lets requests that wait beside the lines act. */
static void look_beside(struct vgc_dp *dp)
{
    struct vgc_req **link = &dp->beside_lines;
    while (*link != NULL) {
        struct vgc_req *req = *link;
        if (any_before(dp, req->line_number)) {
            link = &req->next;
            continue;
        }
        *link = req->next;
        req->at_front(dp, req);
    }
}

/* Takes a request out of the line and lets waiting requests at its front act. These leave the line first, so that this
 * does not recurse. */
void vgc_line_leave(struct vgc_dp *dp, struct vgc_req *req)
{
    if (!req->in_line)
        return;
    struct vgc_context *context = req->context;
    step_out(req);
    while (context->oldest != NULL && context->oldest->at_front != NULL) {
        struct vgc_req *first = context->oldest;
        step_out(first);
        first->at_front(dp, first);
    }
    if (VGC_UNLIKELY(dp->beside_lines != NULL))
        look_beside(dp);
}

void vgc_line_wait(struct vgc_dp *dp, struct vgc_req *req, void (*at_front)(struct vgc_dp *, struct vgc_req *))
{
    if (req->context->oldest == NULL) {
        at_front(dp, req);
        return;
    }
    req->at_front = at_front;
    vgc_line_join(dp, req);
}

void vgc_lines_wait(struct vgc_dp *dp, struct vgc_req *req, void (*at_end)(struct vgc_dp *, struct vgc_req *))
{
    req->line_number = dp->lines_joined;
    if (!any_before(dp, req->line_number)) {
        at_end(dp, req);
        return;
    }
    req->at_front = at_end;
    req->next = dp->beside_lines;
    dp->beside_lines = req;
}
