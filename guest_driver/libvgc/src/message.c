/* Builds requests in a slot of the region and publishes them as descriptor chains. */
#include <string.h>

#include "internal.h"

int vgc_check_usable(struct vgc_device *device)
{
    int result = vgc_check_process(device);
    if (result != VGC_OK)
        return result;
    if (atomic_load_explicit(&device->lost, memory_order_relaxed))
        return vgc_fail(VGC_DEVICE_LOST,
                        "the host replaced the worker of this VM: device memory and programs are gone; "
                        "call vgc_reset() (in Python: Device.reset()) and load them again");
    return VGC_OK;
}

int vgc_check_epoch(const struct vgc_device *device, uint32_t epoch, const char *what)
{
    if (epoch == device->epoch)
        return VGC_OK;
    return vgc_fail(VGC_DEVICE_LOST, "%s belongs to the time before vgc_reset(): make it again", what);
}

/* Requests that free something must get through when the quota is used up. */
static bool is_exempt(uint16_t opcode)
{
    return opcode == VGC_OP_NOP || opcode == VGC_OP_CONTEXT_DESTROY;
}

static bool quota_take(struct vgc_device *device, uint16_t opcode)
{
    uint32_t before = atomic_fetch_add_explicit(&device->state->in_flight, 1, memory_order_relaxed);
    if (before >= atomic_load_explicit(&device->limits.queue_depth, memory_order_relaxed) && !is_exempt(opcode)) {
        atomic_fetch_sub_explicit(&device->state->in_flight, 1, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add_explicit(&vgc_state_self(device)->in_flight, 1, memory_order_relaxed);
    return true;
}

static int refuse_broken(const struct vgc_queue *queue)
{
    return vgc_fail(VGC_DEVICE_LOST, "queue %u was corrupted by the device: open the device again", queue->index);
}

/* With the mutex held: a slot and a place in the quota, or why not. */
static int reserve(struct vgc_queue *queue, uint16_t opcode, bool wait)
{
    struct vgc_device *device = queue->device;
    uint64_t since_ns = 0;
    uint64_t deadline_ns = 0;
    for (;;) {
        if (queue->broken)
            return refuse_broken(queue);
        if (queue->num_free > 0 && quota_take(device, opcode))
            return VGC_OK;
        vgc_queue_take_completions(queue);
        vgc_limits_follow(device);
        if (queue->num_free > 0 && quota_take(device, opcode))
            return VGC_OK;
        if (deadline_ns == 0)
            deadline_ns = wait ? vgc_deadline(device->request_timeout_ns) : 1;
        if (!vgc_queue_pause(queue, &since_ns, deadline_ns))
            break;
    }
    if (queue->num_free == 0)
        return vgc_fail(VGC_RESOURCES_EXHAUSTED,
                        "resources exhausted: all %u requests that queue %u can hold are in flight; wait for some",
                        queue->num_slots, queue->index);
    return vgc_fail(
        VGC_RESOURCES_EXHAUSTED,
        "resources exhausted: %u requests of this VM are in flight and its quota is %u; wait for some" VGC_MAY_RAISE(
            "queue-depth"),
        atomic_load(&device->state->in_flight), atomic_load(&device->limits.queue_depth));
}

static uint64_t gpa_of(const struct vgc_message *message, const uint8_t *pointer)
{
    const struct vgc_transport *transport = message->queue->device->transport;
    return transport->region_gpa + (uint64_t)(pointer - transport->region);
}

int vgc_message_begin_on(struct vgc_message *message, struct vgc_queue *queue, uint16_t opcode, uint32_t context,
                         uint32_t stream, bool wait)
{
    struct vgc_job *job = NULL;
    pthread_mutex_lock(&queue->mutex);
    int result = reserve(queue, opcode, wait);
    if (result == VGC_OK) {
        job = vgc_job_new(queue);
        if (job == NULL) {
            atomic_fetch_sub(&queue->device->state->in_flight, 1);
            atomic_fetch_sub(&vgc_state_self(queue->device)->in_flight, 1);
            result = vgc_fail(VGC_SYSTEM, "out of memory in the guest");
        } else {
            job->slot = queue->free_slots[--queue->num_free];
        }
    }
    uint64_t request_id = ++queue->next_request_id;
    pthread_mutex_unlock(&queue->mutex);
    if (result != VGC_OK)
        return result;
    job->opcode = opcode;
    job->stream = stream;
    job->epoch = queue->device->epoch;
    uint8_t *slot = queue->slots + (size_t)job->slot * VGC_SLOT_STRIDE;
    message->queue = queue;
    message->job = job;
    message->request = slot + VGC_SLOT_TABLE_BYTES;
    message->response = slot + VGC_SLOT_TABLE_BYTES + VGC_SLOT_REQUEST_BYTES;
    message->request_len = 0;
    message->response_len = VGC_SLOT_RESPONSE_BYTES;
    message->num_readable = message->num_writable = 1; /* [0] are request and response, filled in by send */
    struct vgc_request header = {.opcode = opcode,
                                 .context = context,
                                 .stream = stream,
                                 .request_id = (uint64_t)queue->index << 56 | request_id};
    (void)vgc_message_put(message, VGC_BYTES(header), sizeof(header));
    return VGC_OK;
}

int vgc_message_begin(struct vgc_message *message, struct vgc_device *device, uint16_t opcode, uint32_t stream,
                      bool wait)
{
    int result = vgc_check_usable(device);
    if (result != VGC_OK)
        return result;
    if (device->is_looking && opcode != VGC_OP_QUERY && opcode != VGC_OP_NOP)
        return vgc_fail(VGC_NO_CONTEXT, "no context: the device was opened with VGC_OPEN_LOOK, only to ask about it");
    vgc_limits_follow(device);
    while (stream >= atomic_load_explicit(&device->limits.max_streams, memory_order_relaxed))
        if (!vgc_limits_changed(device))
            return vgc_fail(VGC_INVALID_ARGUMENT, "stream %u does not exist; allowed: 0 to %u", stream,
                            atomic_load(&device->limits.max_streams) - 1);
    struct vgc_queue *queue = vgc_queue_current(device);
    if (atomic_load_explicit(&queue->orphans, memory_order_relaxed) != NULL)
        vgc_queue_sweep(queue);
    return vgc_message_begin_on(message, queue, opcode, device->context, stream, wait);
}

int vgc_check_name(const char *name)
{
    size_t len = name != NULL ? strlen(name) : 0;
    if (len == 0 || len > VGC_MAX_NAME)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a function name of %zu bytes; allowed: 1 to %d", len, VGC_MAX_NAME);
    return VGC_OK;
}

size_t vgc_message_room(const struct vgc_message *message)
{
    return VGC_SLOT_REQUEST_BYTES - message->request_len;
}

void *vgc_message_put(struct vgc_message *message, const void *bytes, size_t len)
{
    if (len > vgc_message_room(message))
        return NULL;
    uint8_t *at = message->request + message->request_len;
    if (len > 0)
        memcpy(at, bytes, len);
    message->request_len += (uint32_t)len;
    return at;
}

static int add_spans(struct vgc_message *message, struct vgc_sg *spans, uint16_t *count, const uint8_t *pointer,
                     uint64_t len)
{
    static const uint64_t LARGEST = 1u << 30;
    for (uint64_t done = 0; done < len; done += LARGEST) {
        if (message->num_readable + message->num_writable >= VGC_SLOT_TABLE_ENTRIES)
            return vgc_fail(VGC_INVALID_ARGUMENT, "the request needs more than %d descriptors", VGC_SLOT_TABLE_ENTRIES);
        spans[(*count)++] = (struct vgc_sg){gpa_of(message, pointer + done), (uint32_t)VGC_MIN(LARGEST, len - done)};
    }
    return VGC_OK;
}

int vgc_message_readable(struct vgc_message *message, const void *pointer, uint64_t len)
{
    return add_spans(message, message->readable, &message->num_readable, pointer, len);
}

int vgc_message_writable(struct vgc_message *message, void *pointer, uint64_t len)
{
    struct vgc_job *job = message->job;
    if (len > 0) /* the payload begins in the caller's memory */
        message->response_len = sizeof(struct vgc_response);
    if (len > 0 && job->num_texts < VGC_TEXT_PIECES)
        job->texts[job->num_texts++] = (struct vgc_piece){pointer, len};
    return add_spans(message, message->writable, &message->num_writable, pointer, len);
}

void vgc_message_text_room(struct vgc_message *message)
{
    const struct vgc_job *job = message->job;
    uint64_t room = 0;
    for (uint32_t i = 0; i < job->num_texts; i++)
        room += job->texts[i].len;
    bool all_known = job->num_texts < VGC_TEXT_PIECES;
    if (all_known && job->num_texts != 0 && room < VGC_MAX_ERROR_TEXT)
        (void)vgc_message_writable(message, message->response + sizeof(struct vgc_response),
                                   VGC_SLOT_RESPONSE_BYTES - sizeof(struct vgc_response));
}

void vgc_message_inline_payload(struct vgc_message *message, void *dst, uint64_t len)
{
    message->job->inline_dst = dst;
    message->job->inline_size = VGC_MIN(len, VGC_SLOT_RESPONSE_BYTES - sizeof(struct vgc_response));
}

void vgc_message_cancel(struct vgc_message *message)
{
    struct vgc_queue *queue = message->queue;
    pthread_mutex_lock(&queue->mutex);
    queue->free_slots[queue->num_free++] = (uint16_t)message->job->slot;
    atomic_fetch_sub(&queue->device->state->in_flight, 1);
    atomic_fetch_sub(&vgc_state_self(queue->device)->in_flight, 1);
    vgc_job_recycle(message->job);
    pthread_mutex_unlock(&queue->mutex);
}

static int publish(struct vgc_message *message, const struct vgc_sg *chain, struct vgc_desc *table)
{
    struct vgc_queue *queue = message->queue;
    for (;;) {
        if (queue->broken) /* since the slot was reserved */
            return refuse_broken(queue);
        int head = vgc_vq_add(&queue->vq, chain, message->num_readable, message->num_writable, table,
                              table != NULL ? gpa_of(message, (uint8_t *)table) : 0, message->job);
        if (head >= 0)
            return VGC_OK;
        uint64_t since_ns = 0;
        if (head != -ENOSPC || !vgc_queue_pause(queue, &since_ns, vgc_deadline(queue->device->request_timeout_ns)))
            return vgc_fail(VGC_INTERNAL, "cannot publish a chain of %d descriptors on queue %u: %s",
                            message->num_readable + message->num_writable, queue->index, strerror(-head));
    }
}

static void kick(const struct vgc_queue *queue)
{
    int cancel = vgc_cancel_off();
    queue->device->transport->ops->kick(queue->device->transport, queue->index);
    vgc_cancel_back(cancel);
}

int vgc_message_send(struct vgc_message *message)
{
    struct vgc_queue *queue = message->queue;
    struct vgc_job *job = message->job;
    struct vgc_transport *transport = queue->device->transport;
    uint16_t total = (uint16_t)(message->num_readable + message->num_writable);
    struct vgc_sg chain[VGC_SLOT_TABLE_ENTRIES + 2];
    memcpy(chain, message->readable, message->num_readable * sizeof(chain[0]));
    memcpy(chain + message->num_readable, message->writable, message->num_writable * sizeof(chain[0]));
    chain[0] = (struct vgc_sg){gpa_of(message, message->request), message->request_len};
    chain[message->num_readable] = (struct vgc_sg){gpa_of(message, message->response), message->response_len};
    bool indirect = total > 2 && (transport->features >> VGC_F_RING_INDIRECT_DESC & 1) != 0;
    struct vgc_desc *table = (struct vgc_desc *)(message->request - VGC_SLOT_TABLE_BYTES);

    pthread_mutex_lock(&queue->mutex);
    vgc_trace_sent(job);
    job->start_ns = vgc_now_ns();
    int result = publish(message, chain, indirect ? table : NULL);
    if (result == VGC_OK) {
        queue->slot_jobs[job->slot] = job; /* now, as publish() may wait, and a queue that breaks ends all jobs there */
        if (vgc_vq_should_kick(&queue->vq))
            kick(queue);
    }
    pthread_mutex_unlock(&queue->mutex);
    if (result != VGC_OK)
        vgc_message_cancel(message);
    return result;
}
