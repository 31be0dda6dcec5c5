/* Jobs as memory, and the responses that end them: copied out of the slot, once, and checked. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct vgc_job *vgc_job_new(struct vgc_queue *queue)
{
    struct vgc_job *job = queue->free_jobs;
    if (job != NULL)
        queue->free_jobs = job->next_free;
    else if ((job = malloc(sizeof(*job))) == NULL)
        return NULL;
    memset(job, 0, sizeof(*job));
    job->queue = queue;
    return job;
}

void vgc_job_recycle(struct vgc_job *job)
{
    free(job->copies);
    free(job->text);
    job->next_free = job->queue->free_jobs;
    job->queue->free_jobs = job;
}

void vgc_job_free_staging(struct vgc_job *job)
{
    if (job->staging != NULL)
        (void)vgc_heap_free(job->queue->device, job->staging);
    job->staging = NULL;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void keep_text(struct vgc_job *job, const uint8_t *text, uint64_t len)
{
    len = VGC_MIN(len, VGC_MAX_ERROR_TEXT);
    free(job->text);
    job->text = malloc(len + 1);
    if (job->text == NULL)
        return;
    memcpy(job->text, text, len);
    job->text[len] = '\0';
}

/* Keeps the text that the device has written into the request's payload, or into its slot. */
static void keep_payload(struct vgc_job *job, const uint8_t *in_slot)
{
    char text[VGC_MAX_ERROR_TEXT];
    uint64_t left = VGC_MIN(job->payload_len, sizeof(text)), done = 0;
    if (job->num_texts == 0) {
        keep_text(job, in_slot, VGC_MIN(left, VGC_SLOT_RESPONSE_BYTES - sizeof(job->response)));
        return;
    }
    for (uint32_t i = 0; i < job->num_texts; i++) {
        uint64_t len = VGC_MIN(job->texts[i].len, left - done);
        memcpy(text + done, job->texts[i].at, len);
        done += len;
    }
    keep_text(job, (const uint8_t *)text, done);
}

/* A context of ours that the device does not know went with the worker that held it, though the request itself was
 * in nobody's hands then: to the program it is the same loss. */
static void notice_loss(struct vgc_job *job)
{
    struct vgc_device *device = job->queue->device;
    if (job->result == VGC_NO_CONTEXT && job->opcode != VGC_OP_CONTEXT_DESTROY) {
        static const char GONE[] =
            "the host replaced the worker of this VM before it saw this request; device memory and "
            "programs are gone";
        job->result = VGC_DEVICE_LOST;
        keep_text(job, (const uint8_t *)GONE, sizeof(GONE) - 1);
    }
    if (job->result == VGC_DEVICE_LOST && job->epoch == device->epoch)
        atomic_store_explicit(&device->lost, true, memory_order_relaxed);
}

/* Remembers that kernels printed. */
static void notice_output(struct vgc_job *job)
{
    struct vgc_device *device = job->queue->device;
    bool may_print = job->opcode == VGC_OP_LAUNCH || job->opcode == VGC_OP_CALL || job->opcode == VGC_OP_GRAPH_LAUNCH;
    if (may_print && job->response.aux != 0 && job->epoch == device->epoch)
        atomic_store_explicit(&device->output_waits, true, memory_order_relaxed);
}

void vgc_job_read_response(struct vgc_job *job, const uint8_t *slot, uint32_t used_len)
{
    const uint8_t *response = slot + VGC_SLOT_TABLE_BYTES + VGC_SLOT_REQUEST_BYTES;
    if (used_len < sizeof(job->response)) {
        static const char REFUSED[] = "the device refused the request as malformed";
        job->result = VGC_BAD_REQUEST;
        keep_text(job, (const uint8_t *)REFUSED, sizeof(REFUSED) - 1);
        return;
    }
    memcpy(&job->response, response, sizeof(job->response));
    vgc_limits_hear(job->queue->device, job->response.allotment);
    const uint8_t *payload = response + sizeof(job->response);
    job->result = job->response.status <= VGC_STATUS_INTERNAL ? (int)job->response.status : VGC_INTERNAL;
    job->payload_len = VGC_MIN(job->response.payload_len, used_len - sizeof(job->response));
    if (job->result != VGC_OK)
        keep_payload(job, payload);
    else if (job->inline_dst != NULL && !job->abandoned)
        memcpy(job->inline_dst, payload, VGC_MIN(job->payload_len, job->inline_size));
    notice_loss(job);
    notice_output(job);
}
