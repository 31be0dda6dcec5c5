/* ALLOC, FREE, COPY, FILL, and the table of the VM's allocations. */
#include "internal.h"

/* ---- table -------------------------------------------------------------------------------------------------- */

/* Index of the first allocation behind `address`. */
static uint32_t upper_bound(const struct vgc_dp *dp, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = dp->num_allocs;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dp->allocs[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct vgc_alloc *vgc_alloc_at(struct vgc_dp *dp, uint64_t address)
{
    uint32_t index = upper_bound(dp, address);
    if (index == 0 || dp->allocs[index - 1].address != address)
        return NULL;
    return &dp->allocs[index - 1];
}

int vgc_alloc_insert(struct vgc_dp *dp, struct vgc_alloc alloc)
{
    if (dp->num_allocs == VGC_MAX_ALLOCATIONS)
        return -ENOSPC;
    uint32_t index = upper_bound(dp, alloc.address);
    memmove(&dp->allocs[index + 1], &dp->allocs[index], (dp->num_allocs - index) * sizeof(alloc));
    dp->allocs[index] = alloc;
    dp->num_allocs++;
    dp->num_user_allocs += alloc.charged != 0;
    return 0;
}

static void remove_entry(struct vgc_dp *dp, struct vgc_alloc *alloc)
{
    size_t behind = (size_t)(dp->allocs + dp->num_allocs - (alloc + 1));
    dp->num_user_allocs -= alloc->charged != 0;
    memmove(alloc, alloc + 1, behind * sizeof(*alloc));
    dp->num_allocs--;
}

/* Ends an array or object of the engine's. */
static void end_handle(struct vgc_dp *dp, const struct vgc_alloc *alloc)
{
    if (alloc->use == VGC_ALLOC_ENGINE_ARRAY)
        dp->engine->ops->array_end(dp->engine, (void *)(uintptr_t)alloc->handle); // NOLINT(performance-no-int-to-ptr)
    else
        dp->engine->ops->object_end(dp->engine, alloc->handle, alloc->use == VGC_ALLOC_ENGINE_SURFACE);
}

/* Removes an allocation from the table, and returns its memory to engine and quota unless it belongs to a program; ends
 * an array or object of the engine's. */
void vgc_alloc_drop(struct vgc_dp *dp, struct vgc_alloc *alloc)
{
    if (alloc->share != 0)
        vgc_share_end(dp, &dp->shares[alloc->share - 1]);
    if (alloc->use >= VGC_ALLOC_ENGINE_ARRAY)
        end_handle(dp, alloc);
    else if (alloc->charged != 0)
        dp->engine->ops->free(dp->engine, alloc->address, alloc->size);
    dp->memory_used -= alloc->charged;
    remove_entry(dp, alloc);
}

bool vgc_alloc_is_of(const struct vgc_dp *dp, const struct vgc_alloc *alloc, const struct vgc_context *context)
{
    return alloc->context == vgc_context_number(dp, context) && alloc->charged != 0 && alloc->use == VGC_ALLOC_MEMORY &&
           !alloc->dying;
}

void vgc_alloc_leave(struct vgc_dp *dp, struct vgc_alloc *alloc)
{
    if (alloc->context == 0 && !vgc_share_is_used(&dp->shares[alloc->share - 1]))
        vgc_alloc_drop(dp, alloc);
}

/* Drops what its owner gives up, or makes it nobody's while other contexts have it open; its key is void then. */
static void give_up(struct vgc_dp *dp, struct vgc_alloc *alloc)
{
    struct vgc_share *share = alloc->share == 0 ? NULL : &dp->shares[alloc->share - 1];
    if (share == NULL || !vgc_share_is_used(share)) {
        vgc_alloc_drop(dp, alloc);
        return;
    }
    alloc->context = 0;
    alloc->dying = false;
    memset(share->key, 0, sizeof(share->key));
}

/* Closes all memory that a context has open. */
static void close_all(struct vgc_dp *dp, uint32_t context)
{
    for (uint32_t i = dp->num_shares; i-- > 0;) {
        struct vgc_share *share = &dp->shares[i];
        if (!vgc_share_has_user(share, context))
            continue;
        vgc_share_set_user(share, context, false);
        vgc_alloc_leave(dp, vgc_alloc_at(dp, share->address));
    }
}

void vgc_alloc_drop_of(struct vgc_dp *dp, uint32_t context, uint32_t program_index)
{
    if (program_index == UINT32_MAX)
        close_all(dp, context);
    for (uint32_t i = dp->num_allocs; i-- > 0;) {
        struct vgc_alloc *alloc = &dp->allocs[i];
        if (program_index == UINT32_MAX ? alloc->context == context : alloc->program_index == program_index)
            give_up(dp, alloc);
    }
}

static bool in_region(const struct vgc_dp *dp, uint64_t address, uint64_t size)
{
    return dp->region_address != 0 && address >= dp->region_address &&
           address - dp->region_address <= dp->region->size &&
           size <= dp->region->size - (address - dp->region_address);
}

static bool in_allocation(const struct vgc_dp *dp, uint32_t context, uint64_t address, uint64_t size)
{
    uint32_t index = upper_bound(dp, address);
    if (index == 0)
        return false;
    const struct vgc_alloc *alloc = &dp->allocs[index - 1];
    uint64_t offset = address - alloc->address;
    bool may_use = ((alloc->context == context || alloc->context == VGC_OF_VM) && !alloc->dying) ||
                   (VGC_UNLIKELY(alloc->share != 0) && vgc_share_has_user(&dp->shares[alloc->share - 1], context));
    return may_use && alloc->use == VGC_ALLOC_MEMORY && offset <= alloc->size && size <= alloc->size - offset;
}

bool vgc_check_range(struct vgc_dp *dp, struct vgc_req *req, uint64_t address, uint64_t size)
{
    if (in_allocation(dp, vgc_context_number(dp, req->context), address, size) || in_region(dp, address, size))
        return true;
    vgc_fail(dp, req, VGC_STATUS_INVALID_ADDRESS, "%lu bytes at %#lx do not lie inside one allocation of context %u",
             (unsigned long)size, (unsigned long)address, req->request.context);
    return false;
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

bool vgc_alloc_take(struct vgc_dp *dp, struct vgc_req *req, uint64_t size, enum vgc_alloc_use use, uint64_t *address)
{
    uint64_t charge = vgc_charge_of(dp, size);
    if (dp->num_allocs == VGC_MAX_ALLOCATIONS) {
        vgc_fail(dp, req, VGC_STATUS_RESOURCES_EXHAUSTED, "%d allocations exist; that is the limit",
                 VGC_MAX_ALLOCATIONS);
        return false;
    }
    if (vgc_memory_take(dp, size, charge, address) != 0) {
        vgc_fail(dp, req, VGC_STATUS_OUT_OF_MEMORY, "asked %lu bytes, %lu of %lu bytes free" VGC_MAY_RAISE("memory"),
                 (unsigned long)size, (unsigned long)vgc_memory_left(dp), (unsigned long)dp->config.memory_bytes);
        return false;
    }
    vgc_alloc_insert(dp, (struct vgc_alloc){.address = *address,
                                            .size = size,
                                            .charged = charge,
                                            .context = vgc_context_number(dp, req->context),
                                            .program_index = UINT32_MAX,
                                            .use = (uint8_t)use});
    return true;
}

void vgc_serve_alloc(struct vgc_dp *dp, struct vgc_req *req)
{
    uint64_t size = req->body.alloc.size;
    uint64_t address = 0;
    if (size == 0)
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT, "an allocation of 0 bytes; allowed: 1 or more");
    else if (vgc_alloc_take(dp, req, size, VGC_ALLOC_MEMORY, &address))
        vgc_complete_value(dp, req, address);
}

static void free_now(struct vgc_dp *dp, struct vgc_req *req)
{
    give_up(dp, vgc_alloc_at(dp, req->body.free.address));
    vgc_complete(dp, req, VGC_STATUS_OK, 0);
}

/* Frees the memory when all earlier requests of all streams are done; later requests may not use it. */
void vgc_serve_free(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_alloc *alloc = vgc_alloc_at(dp, req->body.free.address);
    if (alloc == NULL || !vgc_alloc_is_of(dp, alloc, req->context)) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ADDRESS, "%#lx is not an allocation of context %u",
                 (unsigned long)req->body.free.address, req->request.context);
        return;
    }
    alloc->dying = true;
    if (alloc->share != 0)
        memset(dp->shares[alloc->share - 1].key, 0, sizeof(dp->shares[0].key)); /* nobody opens it from now on */
    dp->removals++;
    vgc_line_wait(dp, req, free_now);
}

static void submit_copy(struct vgc_dp *dp, struct vgc_req *req, enum vgc_op_kind kind, uint32_t num_spans)
{
    if (req->body.copy.size == 0) {
        vgc_complete(dp, req, VGC_STATUS_OK, 0);
        return;
    }
    vgc_op_init(req, &req->op, kind);
    req->op.dst = req->body.copy.dst;
    req->op.src = req->body.copy.src;
    req->op.size = req->body.copy.size;
    req->op.spans = req->payload;
    req->op.num_spans = num_spans;
    vgc_submit(dp, req, &req->op);
}

static bool check_unused(struct vgc_dp *dp, struct vgc_req *req, uint64_t address, const char *name)
{
    if (address == 0)
        return true;
    vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "%s is %#lx; allowed for this opcode: 0", name, (unsigned long)address);
    return false;
}

void vgc_serve_copy_in(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_copy *copy = &req->body.copy;
    if (!check_unused(dp, req, copy->src, "src") || !vgc_expect_trailing(dp, req, sizeof(*copy), copy->size) ||
        (copy->size != 0 && !vgc_check_range(dp, req, copy->dst, copy->size)))
        return;
    uint32_t count = vgc_slice(req->chain.spans, sizeof(req->request) + sizeof(*copy), copy->size, req->payload);
    submit_copy(dp, req, VGC_OPK_COPY_IN, count);
}

void vgc_serve_copy_out(struct vgc_dp *dp, struct vgc_req *req)
{
    const struct vgc_body_copy *copy = &req->body.copy;
    if (!check_unused(dp, req, copy->dst, "dst"))
        return;
    if (copy->size > req->chain.writable_len - sizeof(req->response)) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "room for %lu bytes of payload, %lu asked",
                 (unsigned long)(req->chain.writable_len - sizeof(req->response)), (unsigned long)copy->size);
        return;
    }
    if (copy->size != 0 && !vgc_check_range(dp, req, copy->src, copy->size))
        return;
    uint32_t count =
        vgc_slice(req->chain.spans + req->chain.num_readable, sizeof(req->response), copy->size, req->payload);
    submit_copy(dp, req, VGC_OPK_COPY_OUT, count);
}

void vgc_submit_prepared(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->op.kind == VGC_OPK_MARKER)
        vgc_complete(dp, req, VGC_STATUS_OK, 0);
    else
        vgc_submit(dp, req, &req->op);
}

bool vgc_prepare_copy_device(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_copy *copy,
                             struct vgc_op *op)
{
    if (copy->size == 0) {
        op->kind = VGC_OPK_MARKER;
        return true;
    }
    if (!vgc_check_range(dp, req, copy->dst, copy->size) || !vgc_check_range(dp, req, copy->src, copy->size))
        return false;
    op->dst = copy->dst;
    op->src = copy->src;
    op->size = copy->size;
    return true;
}

void vgc_serve_copy_device(struct vgc_dp *dp, struct vgc_req *req)
{
    vgc_op_init(req, &req->op, VGC_OPK_COPY_DEVICE);
    if (vgc_prepare_copy_device(dp, req, &req->body.copy, &req->op))
        vgc_submit_prepared(dp, req);
}

bool vgc_prepare_fill(struct vgc_dp *dp, struct vgc_req *req, const struct vgc_body_fill *fill, struct vgc_op *op)
{
    uint32_t unit = fill->unit;
    if (fill->reserved != 0) {
        vgc_fail(dp, req, VGC_STATUS_BAD_REQUEST, "reserved is %#x; allowed: 0", fill->reserved);
        return false;
    }
    if ((unit != 1 && unit != 2 && unit != 4 && unit != 8) || fill->size % unit != 0 || fill->dst % unit != 0) {
        vgc_fail(dp, req, VGC_STATUS_INVALID_ARGUMENT,
                 "unit %u, size %lu, address %#lx; allowed: units of 1, 2, 4 or 8 bytes, whole and aligned", unit,
                 (unsigned long)fill->size, (unsigned long)fill->dst);
        return false;
    }
    if (fill->size == 0) {
        op->kind = VGC_OPK_MARKER;
        return true;
    }
    if (!vgc_check_range(dp, req, fill->dst, fill->size))
        return false;
    op->dst = fill->dst;
    op->size = fill->size;
    op->value = fill->value;
    op->unit = unit;
    return true;
}

void vgc_serve_fill(struct vgc_dp *dp, struct vgc_req *req)
{
    vgc_op_init(req, &req->op, VGC_OPK_FILL);
    if (vgc_prepare_fill(dp, req, &req->body.fill, &req->op))
        vgc_submit_prepared(dp, req);
}
