/* Programs that are registered for the VM: launches that use them, and their end.
 *
 * Every context may launch their functions, so a PROGRAM_UNLOAD cannot wait in the line of its own context. It waits in
 * `leaving` until the launches that began before it, of all contexts, have ended; from then on nothing finds the
 * program. Of a graph it is only known that it uses some registered program. */
#include "internal.h"

void vgc_registered_use(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_function *function)
{
    if (VGC_LIKELY(dp->programs[function->program_index].context != VGC_OF_VM))
        return;
    req->registered = function->program_index + 1;
    req->work = function->work;
}

/* True if a launch of the program that PROGRAM_UNLOAD names is under way and was so before. */
static bool must_wait(const struct vgc_dp *dp, const struct vgc_req *unload)
{
    for (const struct vgc_req *req = dp->launches; req != NULL; req = req->launch_next)
        if (req->launch_number < unload->launches_ahead &&
            (req->registered == unload->registered || req->registered == VGC_SEVERAL_REGISTERED))
            return true;
    return false;
}

void vgc_registered_leave(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_program *program,
                          void (*at_end)(struct vgc_dp *, struct vgc_req *))
{
    req->registered = (uint32_t)(program - dp->programs) + 1;
    req->launches_ahead = dp->launches_begun;
    if (!must_wait(dp, req)) {
        at_end(dp, req);
        return;
    }
    req->at_front = at_end;
    req->next = dp->leaving;
    dp->leaving = req;
}

void vgc_registered_look(struct vgc_dp *dp)
{
    struct vgc_req **link = &dp->leaving;
    while (*link != NULL) {
        struct vgc_req *req = *link;
        if (must_wait(dp, req)) {
            link = &req->next;
            continue;
        }
        *link = req->next;
        req->at_front(dp, req);
    }
}

/* ---- for Python --------------------------------------------------------------------------------------------- */

int vgc_dp_function_work(struct vgc_dp *dp, uint32_t function, struct vgc_function_work *work)
{
    uint32_t index = vgc_index_of(function);
    int error = -ENOENT;
    vgc_dp_lock(dp);
    if (index < dp->num_functions && dp->functions[index].id == function && dp->functions[index].work != NULL) {
        *work = *dp->functions[index].work;
        error = 0;
    }
    vgc_dp_unlock(dp);
    return error;
}
