/* Copies and fills, one request each. */
#include <stdlib.h>

#include "internal.h"

static const uint64_t LARGEST_REQUEST = 1ull << 31; /* used.len has 32 bits */

/* ---- between this process and the device ------------------------------------------------------ */

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

int vgc_copy_in_direct(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
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

int vgc_copy_in_staged(struct vgc_device *device, uint64_t dst, uint8_t *staging, uint64_t size, uint32_t stream,
                       struct vgc_job **job)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_IN, dst, 0, size, stream, job == VGC_DETACHED);
    if (result != VGC_OK) {
        (void)vgc_heap_free(device, staging);
        return result;
    }
    message.job->staging = staging;
    (void)vgc_message_readable(&message, staging, size); /* at most two descriptors */
    return vgc_job_run(&message, job);
}

int vgc_copy_in_inline(struct vgc_device *device, uint64_t dst, const void *src, uint64_t size, uint32_t stream,
                       struct vgc_job **job, bool wait)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_IN, dst, 0, size, stream, wait);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, src, size);
    return vgc_job_run(&message, job);
}

int vgc_copy_out_direct(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
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

int vgc_copy_out_staged(struct vgc_device *device, void *dst, uint64_t src, uint8_t *staging, uint64_t size,
                        uint32_t stream, struct vgc_job **job)
{
    struct vgc_copy_back *back = malloc(sizeof(*back));
    struct vgc_message message;
    int result = back == NULL ? vgc_fail(VGC_SYSTEM, "out of memory in the guest")
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

int vgc_copy_out_inline(struct vgc_device *device, void *dst, uint64_t src, uint64_t size, uint32_t stream,
                        struct vgc_job **job, bool wait)
{
    struct vgc_message message;
    int result = begin_copy(&message, device, VGC_OP_COPY_OUT, 0, src, size, stream, wait);
    if (result != VGC_OK)
        return result;
    vgc_message_inline_payload(&message, dst, size);
    return vgc_job_run(&message, job);
}

/* ---- on the device --------------------------------------------------------------------------- */

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
