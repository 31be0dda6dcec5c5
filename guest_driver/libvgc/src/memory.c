/* Device memory, the region as memory of the caller, and copies. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { DETACHED_SHARE = 16 }; /* part of the region that a detached copy may take */
enum { PIPELINE = 4, PIECE_BYTES = 1 << 20, SMALLEST_PIECE = 16 << 10, INLINE_IN_BYTES = 4096 };
static const uint64_t LARGEST_REQUEST = 1ull << 31; /* used.len has 32 bits */

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
    if ((device->config.device_features & VGC_F_REGION_ADDRESS) == 0 || device->config.region_device_address == 0)
        return vgc_fail(VGC_UNSUPPORTED, "kernels of this device cannot reach the region: copy in and out instead");
    *address = device->config.region_device_address + (uint64_t)((const uint8_t *)pointer - device->transport->region);
    return VGC_OK;
}

/* ---- one copy, one request ------------------------------------------------------------------ */

static int begin_copy(struct vgc_message *message, struct vgc_device *device, uint16_t opcode, uint64_t dst,
                      uint64_t src, uint64_t size, uint32_t stream, bool wait)
{
    struct vgc_body_copy body = {.dst = dst, .src = src, .size = size};
    if (size > LARGEST_REQUEST)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a copy of %llu bytes in one request; allowed: %llu",
                        (unsigned long long)size, (unsigned long long)LARGEST_REQUEST);
    int result = vgc_message_begin(message, device, opcode, stream, wait);
    if (result == VGC_OK)
        (void)vgc_message_put(message, VGC_BYTES(body), sizeof(body));
    return result;
}

/* `src` lies in the region. */
static int copy_in_direct(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                          struct vgc_job **job, bool wait)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_IN, dst, 0, size, stream, wait);
    if (result != VGC_OK)
        return result;
    result = vgc_message_readable(&message, src, size);
    if (result == VGC_OK)
        return vgc_job_run(&message, job);
    vgc_message_cancel(&message);
    return result;
}

static int copy_in_inline(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                          struct vgc_job **job)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_IN, dst, 0, size, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, src, size);
    return vgc_job_run(&message, job);
}

static int copy_out_direct(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                           struct vgc_job **job, bool wait)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_OUT, 0, src, size, stream, wait);
    if (result != VGC_OK)
        return result;
    result = vgc_message_writable(&message, dst, size);
    if (result == VGC_OK)
        return vgc_job_run(&message, job);
    vgc_message_cancel(&message);
    return result;
}

static int copy_out_inline(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                           struct vgc_job **job)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_OUT, 0, src, size, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    vgc_message_inline_payload(&message, dst, size);
    return vgc_job_run(&message, job);
}

/* ---- staged: the buffer lies elsewhere ------------------------------------------------------ */

static int copy_in_async(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                         struct vgc_job **job)
{
    uint8_t *staging;
    int result = vgc_alloc_or_reap(device, size, &staging);
    if (result != VGC_OK)
        return result;
    memcpy(staging, src, size);
    struct vgc_message message;
    result = begin_copy(&message, device, VGC_OP_COPY_IN, dst, 0, size, stream, job == VGC_DETACHED);
    if (result != VGC_OK) {
        (void)vgc_heap_free(device, staging);
        return result;
    }
    message.job->staging = staging;
    (void)vgc_message_readable(&message, staging, size); /* at most two descriptors */
    return vgc_job_run(&message, job);
}

static int copy_out_async(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                          struct vgc_job **job)
{
    uint8_t *staging;
    int result = vgc_alloc_or_reap(device, size, &staging);
    if (result != VGC_OK)
        return result;
    struct vgc_copy_back *back = malloc(sizeof(*back));
    struct vgc_message message;
    result = back == NULL ? vgc_fail(VGC_SYSTEM, "out of memory in the guest")
                          : begin_copy(&message, device, VGC_OP_COPY_OUT, 0, src, size, stream, false);
    if (result != VGC_OK) {
        free(back);
        (void)vgc_heap_free(device, staging);
        return result;
    }
    *back = (struct vgc_copy_back){dst, staging, size};
    message.job->staging = staging;
    message.job->copies = back;
    message.job->num_copies = 1;
    (void)vgc_message_writable(&message, staging, size);
    return vgc_job_run(&message, job);
}

/* Pieces of a large copy in flight at once, each with its part of the staging memory. */
struct pipeline {
    struct vgc_device *device;
    uint8_t *staging;
    uint64_t piece_bytes;
    struct vgc_job *jobs[PIPELINE];
    bool stuck; /* a piece never came back: its staging memory must not be reused */
};

static int pipeline_open(struct pipeline *pipeline, struct vgc_device *device, uint64_t size)
{
    uint64_t piece = VGC_MIN((uint64_t)PIECE_BYTES, size / PIPELINE + VGC_HEAP_ALIGN);
    piece &= ~(uint64_t)(VGC_HEAP_ALIGN - 1);
    *pipeline = (struct pipeline){.device = device};
    int result;
    for (;; piece /= 4) { /* a crowded region makes it slower, not impossible */
        pipeline->piece_bytes = piece;
        result = vgc_alloc_or_reap(device, piece * PIPELINE, &pipeline->staging);
        if (result != VGC_RESOURCES_EXHAUSTED || piece / 4 < SMALLEST_PIECE)
            return result;
    }
}

static int pipeline_wait(struct pipeline *pipeline, uint32_t lane)
{
    struct vgc_job *job = pipeline->jobs[lane];
    if (job == NULL)
        return VGC_OK;
    pipeline->jobs[lane] = NULL;
    int result = vgc_job_wait(job, UINT64_MAX);
    pipeline->stuck = pipeline->stuck || result == VGC_NO_ANSWER;
    vgc_job_release(job);
    return result;
}

static int pipeline_close(struct pipeline *pipeline, int result)
{
    for (uint32_t lane = 0; lane < PIPELINE; lane++) {
        int one = pipeline_wait(pipeline, lane);
        result = result == VGC_OK ? one : result;
    }
    if (!pipeline->stuck)
        (void)vgc_heap_free(pipeline->device, pipeline->staging);
    return result;
}

static int copy_in_pipelined(struct vgc_device *device, uint64_t dst, const uint8_t *src, uint64_t size,
                             uint32_t stream)
{
    struct pipeline pipeline;
    int result = pipeline_open(&pipeline, device, size);
    if (result != VGC_OK)
        return result;
    uint32_t lane = 0;
    for (uint64_t done = 0; done < size && result == VGC_OK; lane = (lane + 1) % PIPELINE) {
        uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - done);
        uint8_t *staging = pipeline.staging + lane * pipeline.piece_bytes;
        result = pipeline_wait(&pipeline, lane);
        if (result != VGC_OK)
            break;
        memcpy(staging, src + done, piece);
        result = copy_in_direct(device, dst + done, staging, piece, stream, &pipeline.jobs[lane], true);
        done += piece;
    }
    return pipeline_close(&pipeline, result);
}

static int copy_out_pipelined(struct vgc_device *device, uint8_t *dst, uint64_t src, uint64_t size, uint32_t stream)
{
    struct pipeline pipeline;
    int result = pipeline_open(&pipeline, device, size);
    if (result != VGC_OK)
        return result;
    uint64_t asked = 0;
    uint32_t ask = 0;
    uint32_t take = 0;
    for (uint64_t done = 0; done < size && result == VGC_OK; take = (take + 1) % PIPELINE) {
        while (asked < size && pipeline.jobs[ask] == NULL && result == VGC_OK) {
            uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - asked);
            result = copy_out_direct(device, pipeline.staging + ask * pipeline.piece_bytes, src + asked, piece, stream,
                                     &pipeline.jobs[ask], true);
            asked += piece;
            ask = (ask + 1) % PIPELINE;
        }
        if (result == VGC_OK)
            result = pipeline_wait(&pipeline, take);
        if (result != VGC_OK)
            break;
        uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - done);
        memcpy(dst + done, pipeline.staging + take * pipeline.piece_bytes, piece);
        done += piece;
    }
    return pipeline_close(&pipeline, result);
}

/* ---- public --------------------------------------------------------------------------------- */

int vgc_copy_in(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                struct vgc_job **job)
{
    bool in_region = vgc_in_region(device, src, size);
    if (size <= INLINE_IN_BYTES &&
        !(in_region && size > 0 && job == VGC_DETACHED)) /* else: read when it is the copy's turn */
        return copy_in_inline(device, dst, src, size, stream, job);
    if (in_region)
        return copy_in_direct(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (job != NULL && job != VGC_DETACHED)
        return copy_in_async(device, dst, src, size, stream, job);
    if (job == VGC_DETACHED && size <= device->transport->region_bytes / DETACHED_SHARE) {
        int result = copy_in_async(device, dst, src, size, stream, job);
        if (result != VGC_RESOURCES_EXHAUSTED)
            return result;
    }
    return copy_in_pipelined(device, dst, src, size, stream);
}

int vgc_copy_out(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                 struct vgc_job **job)
{
    if (job == VGC_DETACHED && (size == 0 || !vgc_in_region(device, dst, size)))
        job = NULL;
    else if (job == VGC_DETACHED)
        return copy_out_direct(device, dst, src, size, stream, job, true);
    if (size <= VGC_SLOT_RESPONSE_BYTES - sizeof(struct vgc_response))
        return copy_out_inline(device, dst, src, size, stream, job);
    if (vgc_in_region(device, dst, size))
        return copy_out_direct(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (job != NULL)
        return copy_out_async(device, dst, src, size, stream, job);
    return copy_out_pipelined(device, dst, src, size, stream);
}

int vgc_copy_device(struct vgc_device *device, uint64_t dst, uint64_t src, uint64_t size, uint32_t stream,
                    struct vgc_job **job)
{
    struct vgc_message message;
    struct vgc_body_copy body = {.dst = dst, .src = src, .size = size};
    int result = vgc_message_begin(&message, device, VGC_OP_COPY_DEVICE, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, job);
}

int vgc_fill(struct vgc_device *device, uint64_t dst, uint64_t value, uint32_t unit, uint64_t size, uint32_t stream,
             struct vgc_job **job)
{
    struct vgc_message message;
    struct vgc_body_fill body = {.dst = dst, .size = size, .value = value, .unit = unit};
    if ((unit != 1 && unit != 2 && unit != 4 && unit != 8) || size % unit != 0)
        return vgc_fail(VGC_INVALID_ARGUMENT,
                        "fill of %llu bytes in units of %u; allowed: units of 1, 2, 4, 8 that divide the size",
                        (unsigned long long)size, unit);
    int result = vgc_message_begin(&message, device, VGC_OP_FILL, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, job);
}
