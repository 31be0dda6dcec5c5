/* The line of a context: its requests whose operations the engine has, oldest first, of all streams.
 *
 * FREE and PROGRAM_UNLOAD remove memory or kernels that earlier requests of any stream may still use. They wait in the
 * line, with no operation of their own, and act when no request is ahead of them. Later requests may not use what they
 * remove, and do not wait.
 */
#include "internal.h"

void vgc_line_join(struct vgc_req *req)
{
    struct vgc_context *context = req->context;
    if (context == NULL || req->in_line)
        return;
    req->in_line = true;
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
}

void vgc_line_wait(struct vgc_dp *dp, struct vgc_req *req, void (*at_front)(struct vgc_dp *, struct vgc_req *))
{
    if (req->context->oldest == NULL) {
        at_front(dp, req);
        return;
    }
    req->at_front = at_front;
    vgc_line_join(req);
}
