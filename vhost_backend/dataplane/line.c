/* The line of a context: its requests whose work the engine has, oldest first, whatever their streams.
 *
 * FREE and PROGRAM_UNLOAD take away what requests before them may still use, in any stream. They stand in the line
 * without giving the engine anything, and act when nothing is ahead of them. What comes after them is not allowed to
 * use what they take away, and does not wait.
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

/* Those who act are out of the line before they do, so that this does not nest. */
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
