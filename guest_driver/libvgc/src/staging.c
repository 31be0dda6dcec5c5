/* Copies of memory of this process, wherever it lies: in place in the region, small ones in their request, all others
 * through memory of the region, in pieces. The region may be smaller than the copy, or full: pieces then get smaller,
 * and in the end travel in the slots of the queue, which every process has. So no copy waits for another process. */
#include <string.h>

#include "internal.h"

enum { DETACHED_SHARE = 16 }; /* part of the region that a detached copy may take */
enum { PIPELINE = 4, PIECE_BYTES = 1 << 20, SMALLEST_PIECE = 16 << 10 };

/* Pieces of a large copy in flight at once, each with its part of the staging memory. */
struct pipeline {
    struct vgc_device *device;
    uint8_t *staging; /* NULL: pieces lie in their requests */
    uint64_t piece_bytes;
    uint32_t stream;
    struct vgc_job *jobs[PIPELINE];
    bool stuck; /* a piece never came back: its staging memory must not be reused */
};

/* Takes memory for the pieces; `inline_bytes` is the size of those that lie in their requests. */
static int pipeline_open(struct pipeline *pipeline, struct vgc_device *device, uint64_t size, uint64_t inline_bytes,
                         uint32_t stream)
{
    uint64_t piece = VGC_MIN((uint64_t)PIECE_BYTES, size / PIPELINE + VGC_HEAP_ALIGN);
    piece &= ~(uint64_t)(VGC_HEAP_ALIGN - 1);
    *pipeline = (struct pipeline){.device = device, .piece_bytes = piece, .stream = stream};
    for (;; piece /= 4) { /* a crowded region makes it slower, not impossible */
        pipeline->piece_bytes = piece;
        int result = vgc_alloc_or_reap(device, piece * PIPELINE, &pipeline->staging);
        if (result != VGC_RESOURCES_EXHAUSTED)
            return result;
        if (piece / 4 < SMALLEST_PIECE)
            break;
    }
    pipeline->staging = NULL;
    pipeline->piece_bytes = inline_bytes;
    return VGC_OK;
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
    if (!pipeline->stuck && pipeline->staging != NULL)
        (void)vgc_heap_free(pipeline->device, pipeline->staging);
    return result;
}

static int send_in(struct pipeline *pipeline, uint32_t lane, uint64_t dst, const uint8_t *src, uint64_t size)
{
    struct vgc_job **job = &pipeline->jobs[lane];
    if (pipeline->staging == NULL)
        return vgc_copy_in_inline(pipeline->device, dst, src, size, pipeline->stream, job, true);
    uint8_t *staging = pipeline->staging + lane * pipeline->piece_bytes;
    memcpy(staging, src, size);
    return vgc_copy_in_direct(pipeline->device, dst, staging, size, pipeline->stream, job, true);
}

static int copy_in_pipelined(struct vgc_device *device, uint64_t dst, const uint8_t *src, uint64_t size,
                             uint32_t stream)
{
    struct pipeline pipeline;
    int result = pipeline_open(&pipeline, device, size, VGC_INLINE_IN_BYTES, stream);
    if (result != VGC_OK)
        return result;
    uint32_t lane = 0;
    for (uint64_t done = 0; done < size && result == VGC_OK; lane = (lane + 1) % PIPELINE) {
        uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - done);
        result = pipeline_wait(&pipeline, lane);
        if (result != VGC_OK)
            break;
        result = send_in(&pipeline, lane, dst + done, src + done, piece);
        done += piece;
    }
    return pipeline_close(&pipeline, result);
}

/* A piece in a request goes to `dst` as the answer is read, any other when it is taken. */
static int ask_out(struct pipeline *pipeline, uint32_t lane, uint8_t *dst, uint64_t src, uint64_t size)
{
    struct vgc_job **job = &pipeline->jobs[lane];
    if (pipeline->staging == NULL)
        return vgc_copy_out_inline(pipeline->device, dst, src, size, pipeline->stream, job, true);
    uint8_t *staging = pipeline->staging + lane * pipeline->piece_bytes;
    return vgc_copy_out_direct(pipeline->device, staging, src, size, pipeline->stream, job, true);
}

static int copy_out_pipelined(struct vgc_device *device, uint8_t *dst, uint64_t src, uint64_t size, uint32_t stream)
{
    struct pipeline pipeline;
    int result = pipeline_open(&pipeline, device, size, VGC_INLINE_OUT_BYTES, stream);
    if (result != VGC_OK)
        return result;
    uint64_t asked = 0;
    uint32_t ask = 0;
    uint32_t take = 0;
    for (uint64_t done = 0; done < size && result == VGC_OK; take = (take + 1) % PIPELINE) {
        while (asked < size && pipeline.jobs[ask] == NULL && result == VGC_OK) {
            uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - asked);
            result = ask_out(&pipeline, ask, dst + asked, src + asked, piece);
            asked += piece;
            ask = (ask + 1) % PIPELINE;
        }
        if (result == VGC_OK)
            result = pipeline_wait(&pipeline, take);
        if (result != VGC_OK)
            break;
        uint64_t piece = VGC_MIN(pipeline.piece_bytes, size - done);
        if (pipeline.staging != NULL)
            memcpy(dst + done, pipeline.staging + take * pipeline.piece_bytes, piece);
        done += piece;
    }
    return pipeline_close(&pipeline, result);
}

/* ---- as jobs -------------------------------------------------------------------------------- */

/* Without room for all of it, the copy is made at once but for its last bytes, whose request is the job. */
static int copy_in_async(struct vgc_device *device, uint64_t dst, const uint8_t *src, uint64_t size, uint32_t stream,
                         struct vgc_job **job)
{
    uint8_t *staging;
    int result = vgc_alloc_or_reap(device, size, &staging);
    if (result == VGC_OK) {
        memcpy(staging, src, size);
        return vgc_copy_in_staged(device, dst, staging, size, stream, job);
    }
    if (result != VGC_RESOURCES_EXHAUSTED)
        return result;
    uint64_t before = size - VGC_INLINE_IN_BYTES;
    result = copy_in_pipelined(device, dst, src, before, stream);
    if (result != VGC_OK)
        return result;
    return vgc_copy_in_inline(device, dst + before, src + before, VGC_INLINE_IN_BYTES, stream, job, true);
}

static int copy_out_async(struct vgc_device *device, uint8_t *dst, uint64_t src, uint64_t size, uint32_t stream,
                          struct vgc_job **job)
{
    uint8_t *staging;
    int result = vgc_alloc_or_reap(device, size, &staging);
    if (result == VGC_OK)
        return vgc_copy_out_staged(device, dst, src, staging, size, stream, job);
    if (result != VGC_RESOURCES_EXHAUSTED)
        return result;
    uint64_t before = size - VGC_INLINE_OUT_BYTES;
    result = copy_out_pipelined(device, dst, src, before, stream);
    if (result != VGC_OK)
        return result;
    return vgc_copy_out_inline(device, dst + before, src + before, VGC_INLINE_OUT_BYTES, stream, job, true);
}

/* One request that nobody waits for; VGC_RESOURCES_EXHAUSTED: the region has no room for it now. */
static int copy_in_detached(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream)
{
    uint8_t *staging;
    int result = vgc_alloc_or_reap(device, size, &staging);
    if (result != VGC_OK)
        return result;
    memcpy(staging, src, size);
    return vgc_copy_in_staged(device, dst, staging, size, stream, VGC_DETACHED);
}

/* ---- public --------------------------------------------------------------------------------- */

int vgc_copy_in(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                struct vgc_job **job)
{
    bool in_region = vgc_in_region(device, src, size);
    if (size <= VGC_INLINE_IN_BYTES &&
        !(in_region && size > 0 && job == VGC_DETACHED)) /* else: read when it is the copy's turn */
        return vgc_copy_in_inline(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (in_region)
        return vgc_copy_in_direct(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (job != NULL && job != VGC_DETACHED)
        return copy_in_async(device, dst, src, size, stream, job);
    if (job == VGC_DETACHED && size <= device->transport->region_bytes / DETACHED_SHARE) {
        int result = copy_in_detached(device, dst, src, size, stream);
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
        return vgc_copy_out_direct(device, dst, src, size, stream, job, true);
    if (size <= VGC_INLINE_OUT_BYTES)
        return vgc_copy_out_inline(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (vgc_in_region(device, dst, size))
        return vgc_copy_out_direct(device, dst, src, size, stream, job, vgc_waits_for_room(job));
    if (job != NULL)
        return copy_out_async(device, dst, src, size, stream, job);
    return copy_out_pipelined(device, dst, src, size, stream);
}
