/* MEMORY_EXPORT, MEMORY_OPEN, MEMORY_CLOSE: allocations that several contexts use.
 *
 * Memory that its owner frees, or leaves behind with its context, belongs to nobody while others have it open, and is
 * dropped when the last of them has closed it. */
#include "internal.h"

/* Share of an allocation, perhaps a new one. NULL: the request was answered. */
static struct vgc_share *share_of(struct vgc_dp *dp, struct vgc_req *req, struct vgc_alloc *alloc)
{
    if (alloc->share != 0)
        return &dp->shares[alloc->share - 1];
    struct vgc_share *share = vgc_share_new(dp);
    if (share == NULL) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d allocations and events are shared; that is the limit",
                 VGC_MAX_SHARES);
        return NULL;
    }
    share->address = alloc->address;
    alloc->share = (uint32_t)(share - dp->shares) + 1;
    return share;
}

void vgc_serve_memory_export(struct vgc_dp *dp, struct vgc_req *req)
{
    uint64_t address = req->body.memory.address;
    struct vgc_alloc *alloc = vgc_alloc_at(dp, address);
    if (alloc == NULL || !vgc_alloc_is_of(dp, alloc, req->context)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ADDRESS, "%#lx is not an allocation of context %u", (unsigned long)address,
                 req->request.context);
        return;
    }
    const struct vgc_share *share = share_of(dp, req, alloc);
    if (share == NULL)
        return;
    req->response.aux = share->key[1];
    vgc_complete_value(dp, req, share->key[0]);
}

void vgc_serve_memory_open(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t context = vgc_context_number(dp, req->context);
    struct vgc_share *share = vgc_share_find(dp, req->body.key.key);
    if (share == NULL || share->address == 0) {
        vgc_fail(dp, req, VGC_STATUS_NOT_FOUND, "no memory has this key");
        return;
    }
    const struct vgc_alloc *alloc = vgc_alloc_at(dp, share->address);
    if (alloc->context == context) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "the memory is the context's own; allowed: another context's");
        return;
    }
    vgc_share_set_user(share, context, true);
    req->response.aux = alloc->size;
    vgc_complete_value(dp, req, alloc->address);
}

static void close_now(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_alloc *alloc = vgc_alloc_at(dp, req->body.memory.address);
    dp->shares[alloc->share - 1].closing--;
    vgc_alloc_leave(dp, alloc);
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

/* Gives the memory up when all earlier requests of all streams are done; later requests may not use it. */
void vgc_serve_memory_close(struct vgc_dp *dp, struct vgc_req *req)
{
    uint32_t context = vgc_context_number(dp, req->context);
    const struct vgc_alloc *alloc = vgc_alloc_at(dp, req->body.memory.address);
    struct vgc_share *share = alloc == NULL || alloc->share == 0 ? NULL : &dp->shares[alloc->share - 1];
    if (share == NULL || !vgc_share_has_user(share, context)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ADDRESS, "context %u has no memory open at %#lx", req->request.context,
                 (unsigned long)req->body.memory.address);
        return;
    }
    vgc_share_set_user(share, context, false);
    share->closing++;
    dp->removals++;
    vgc_line_wait(dp, req, close_now);
}

/* ---- migration ---------------------------------------------------------------------------------------------- */

void vgc_shares_save(const struct vgc_dp *dp, struct vgc_migration_share *shares)
{
    for (uint32_t i = 0; i < VGC_MAX_SHARES; i++) {
        const struct vgc_share *share = &dp->shares[i];
        shares[i] = (struct vgc_migration_share){.address = share->address, .event = share->event};
        memcpy(shares[i].key, share->key, sizeof(share->key));
        memcpy(shares[i].users, share->users, sizeof(share->users));
    }
}

/* True if memory may have these users: contexts that exist, and do not own it; nobody's memory has some. */
static bool may_have_users(const struct vgc_dp *dp, const struct vgc_alloc *alloc, const struct vgc_share *share)
{
    for (uint32_t number = 1; number <= VGC_MAX_CONTEXTS; number++)
        if (vgc_share_has_user(share, number) && (number == alloc->context || !vgc_context_exists(dp, number)))
            return false;
    return alloc->context != 0 || vgc_share_is_used(share);
}

static int load_memory(struct vgc_dp *dp, const struct vgc_share *share, uint32_t index, char *why)
{
    struct vgc_alloc *alloc = vgc_alloc_at(dp, share->address);
    if (share->event != 0 || alloc == NULL || alloc->use != VGC_ALLOC_MEMORY || alloc->share != 0 ||
        !may_have_users(dp, alloc, share))
        return vgc_why(why, -EINVAL, "shared memory at %#lx at place %u", (unsigned long)share->address, index);
    alloc->share = index + 1;
    return 0;
}

static int load_event(struct vgc_dp *dp, const struct vgc_share *share, uint32_t index, char *why)
{
    struct vgc_event *event = share->event <= VGC_MAX_EVENTS ? &dp->events[share->event - 1] : NULL;
    if (event == NULL || event->context == 0 || event->origin != 0 || event->share != 0 || vgc_share_is_used(share))
        return vgc_why(why, -EINVAL, "a shared event at place %u, which is entry %u", index, share->event);
    event->share = index + 1;
    return 0;
}

int vgc_shares_load(struct vgc_dp *dp, const struct vgc_migration_share *shares, char *why)
{
    int error = 0;
    for (uint32_t i = 0; i < VGC_MAX_SHARES && error == 0; i++) {
        struct vgc_share *share = &dp->shares[i];
        if (shares[i].address == 0 && shares[i].event == 0)
            continue;
        *share = (struct vgc_share){.address = shares[i].address, .event = shares[i].event};
        memcpy(share->key, shares[i].key, sizeof(share->key));
        memcpy(share->users, shares[i].users, sizeof(share->users));
        dp->num_shares = i + 1;
        error = share->address != 0 ? load_memory(dp, share, i, why) : load_event(dp, share, i, why);
    }
    for (uint32_t i = 0; i < dp->num_allocs && error == 0; i++)
        if (dp->allocs[i].context == 0 && dp->allocs[i].share == 0)
            error = vgc_why(why, -EINVAL, "the allocation at %#lx is nobody's", (unsigned long)dp->allocs[i].address);
    return error;
}
