/* What kernels print: the device keeps it, and says with a launch's answer that there is some. */
#include "queue.h"

void vgc_output_notice(struct vgc_job *job)
{
    struct vgc_device *device = job->queue->device;
    bool may_print = job->opcode == VGC_OP_LAUNCH || job->opcode == VGC_OP_CALL;
    if (may_print && job->response.aux != 0 && job->epoch == device->epoch)
        atomic_store_explicit(&device->output_waits, true, memory_order_relaxed);
}

bool vgc_output_waits(struct vgc_device *device)
{
    return atomic_load_explicit(&device->output_waits, memory_order_relaxed);
}

int vgc_output_read(struct vgc_device *device, char *text, uint64_t room, uint64_t *len, uint64_t *lost)
{
    struct vgc_message message;
    struct vgc_response response;
    struct vgc_body_query body = {.what = VGC_QUERY_KIND_OUTPUT};
    *len = *lost = 0;
    atomic_store_explicit(&device->output_waits, false, memory_order_relaxed);
    int result = vgc_message_begin(&message, device, VGC_OP_QUERY, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, &body, sizeof(body));
    vgc_message_inline_payload(&message, text, room);
    message.response_len = (uint32_t)(sizeof(response) + message.job->inline_size); /* what is sent is taken */
    result = vgc_message_ask(&message, &response);
    if (result != VGC_OK)
        return result;
    *len = VGC_MIN(response.payload_len, VGC_MIN(room, (uint64_t)VGC_SLOT_RESPONSE_BYTES - sizeof(response)));
    *lost = response.value;
    if (response.aux > *len)
        atomic_store_explicit(&device->output_waits, true, memory_order_relaxed);
    return VGC_OK;
}
