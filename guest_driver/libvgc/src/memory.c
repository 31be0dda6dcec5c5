/* Device memory, and the region as memory of the caller. */
#include <string.h>

#include "internal.h"

/* ---- device memory -------------------------------------------------------------------------- */

static bool quota_take(struct vgc_device *device, uint64_t size, uint64_t *used)
{
    uint64_t quota = atomic_load(&device->limits.memory_bytes);
    *used = atomic_fetch_add(&device->state->memory_bytes, size);
    if (*used > quota || size > quota - *used) {
        atomic_fetch_sub(&device->state->memory_bytes, size);
        return false;
    }
    atomic_fetch_add(&vgc_state_self(device)->memory_bytes, size);
    return true;
}

void vgc_quota_add(struct vgc_device *device, uint64_t size)
{
    atomic_fetch_add(&device->state->memory_bytes, size);
    atomic_fetch_add(&vgc_state_self(device)->memory_bytes, size);
}

void vgc_quota_give(struct vgc_device *device, uint64_t size)
{
    atomic_fetch_sub(&device->state->memory_bytes, size);
    atomic_fetch_sub(&vgc_state_self(device)->memory_bytes, size);
}

uint64_t vgc_quota_free(struct vgc_device *device)
{
    uint64_t used = atomic_load(&device->state->memory_bytes);
    uint64_t quota = atomic_load(&device->limits.memory_bytes);
    return used < quota ? quota - used : 0;
}

bool vgc_quota_has(struct vgc_device *device, uint64_t size)
{
    return size <= vgc_quota_free(device) || (vgc_limits_changed(device) && size <= vgc_quota_free(device)) ||
           (vgc_reap(device) && size <= vgc_quota_free(device));
}

static int ask_alloc(struct vgc_device *device, uint64_t size, uint64_t *address)
{
    struct vgc_message message;
    struct vgc_response response;
    struct vgc_body_alloc body = {.size = size};
    int result = vgc_message_begin(&message, device, VGC_OP_ALLOC, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    result = vgc_job_ask(&message, &response);
    *address = result == VGC_OK ? response.value : 0;
    return result;
}

static int ask_free(struct vgc_device *device, uint64_t address)
{
    struct vgc_message message;
    struct vgc_body_free body = {.address = address};
    int result = vgc_message_begin(&message, device, VGC_OP_FREE, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, NULL);
}

int vgc_alloc(struct vgc_device *device, uint64_t size, uint64_t *address)
{
    int result = vgc_check_usable(device);
    if (result != VGC_OK)
        return result;
    if (size == 0)
        return vgc_fail(VGC_INVALID_ARGUMENT, "an allocation of 0 bytes; allowed: at least 1");
    uint64_t used;
    vgc_limits_follow(device);
    if (!quota_take(device, size, &used) && !(vgc_limits_changed(device) && quota_take(device, size, &used)) &&
        !(vgc_reap(device) && quota_take(device, size, &used))) {
        uint64_t quota = atomic_load(&device->limits.memory_bytes);
        return vgc_fail(
            VGC_OUT_OF_MEMORY, "resources exhausted: asked %llu, %llu of %llu bytes free" VGC_MAY_RAISE("memory"),
            (unsigned long long)size, (unsigned long long)(used < quota ? quota - used : 0), (unsigned long long)quota);
    }
    result = ask_alloc(device, size, address);
    if (result == VGC_OUT_OF_MEMORY && vgc_reap(device)) /* a dead process had memory open that its owner has freed */
        result = ask_alloc(device, size, address);
    if (result == VGC_OK)
        result = vgc_ledger_add(&device->ledger, *address, size);
    if (result != VGC_OK)
        vgc_quota_give(device, size);
    return result;
}

int vgc_free(struct vgc_device *device, uint64_t address)
{
    int result = vgc_check_usable(device);
    if (result != VGC_OK || address == 0)
        return result;
    uint64_t size = vgc_ledger_remove(&device->ledger, address);
    if (size == 0)
        return vgc_fail(VGC_INVALID_ADDRESS, "0x%llx is not the start of a live allocation of this process",
                        (unsigned long long)address);
    vgc_quota_give(device, size);
    return ask_free(device, address);
}

/* ---- memory of other processes -------------------------------------------------------------- */

static int ask_sharing(struct vgc_device *device, uint16_t opcode, const void *body, size_t size,
                       struct vgc_response *response)
{
    struct vgc_message message;
    int result = vgc_message_begin(&message, device, opcode, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, body, size);
    return vgc_job_ask(&message, response);
}

int vgc_memory_export(struct vgc_device *device, uint64_t address, struct vgc_key *key)
{
    struct vgc_response response;
    const struct vgc_body_memory body = {.address = address};
    int result = ask_sharing(device, VGC_OP_MEMORY_EXPORT, VGC_BYTES(body), sizeof(body), &response);
    if (result == VGC_OK)
        *key = (struct vgc_key){{response.value, response.aux}};
    return result;
}

int vgc_memory_open(struct vgc_device *device, const struct vgc_key *key, uint64_t *address, uint64_t *size)
{
    struct vgc_response response;
    const struct vgc_body_key body = {.key = {key->halves[0], key->halves[1]}};
    int result = ask_sharing(device, VGC_OP_MEMORY_OPEN, VGC_BYTES(body), sizeof(body), &response);
    if (result != VGC_OK)
        return result;
    *address = response.value;
    *size = response.aux;
    return VGC_OK;
}

int vgc_memory_close(struct vgc_device *device, uint64_t address)
{
    struct vgc_message message;
    const struct vgc_body_memory body = {.address = address};
    int result = vgc_message_begin(&message, device, VGC_OP_MEMORY_CLOSE, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, NULL);
}

/* ---- the region ----------------------------------------------------------------------------- */

bool vgc_in_region(const struct vgc_device *device, const void *pointer, uint64_t size)
{
    uintptr_t base = (uintptr_t)device->transport->region;
    uintptr_t at = (uintptr_t)pointer;
    uint64_t bytes = device->transport->region_bytes;
    return at >= base && at - base <= bytes && size <= bytes - (at - base);
}

int vgc_region_alloc(struct vgc_device *device, uint64_t size, void **pointer)
{
    int result = vgc_check_usable(device);
    uint8_t *memory = NULL;
    if (result == VGC_OK)
        result = vgc_alloc_or_reap(device, size, &memory);
    *pointer = memory;
    return result;
}

void vgc_region_free(struct vgc_device *device, void *pointer)
{
    if (pointer != NULL)
        (void)vgc_heap_free(device, pointer);
}

int vgc_region_address(struct vgc_device *device, const void *pointer, uint64_t *address)
{
    if (!vgc_in_region(device, pointer, 1))
        return vgc_fail(VGC_INVALID_ADDRESS, "%p is not in the shared region", pointer);
    uint64_t base = vgc_region_seen_at(device);
    if (base == 0)
        return vgc_fail(VGC_UNSUPPORTED, "kernels of this device cannot reach the region: copy in and out instead");
    *address = base + (uint64_t)((const uint8_t *)pointer - device->transport->region);
    return VGC_OK;
}
