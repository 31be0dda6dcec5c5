/* Jobs: a request in flight, its answer, and what remains to be done with it. */
#include <stdlib.h>
#include <string.h>

#include "queue.h"

static _Thread_local struct vgc_timing last_timing;

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
    bool in_slot = job->text_at == NULL;
    const uint8_t *payload = in_slot ? response + sizeof(job->response) : job->text_at;
    uint64_t room = in_slot ? VGC_SLOT_RESPONSE_BYTES - sizeof(job->response) : job->text_room;
    job->result = job->response.status <= VGC_STATUS_INTERNAL ? (int)job->response.status : VGC_INTERNAL;
    job->payload_len = VGC_MIN(job->response.payload_len, used_len - sizeof(job->response));
    if (job->result != VGC_OK)
        keep_text(job, payload, VGC_MIN(job->payload_len, room));
    else if (job->inline_dst != NULL && !job->abandoned)
        memcpy(job->inline_dst, payload, VGC_MIN(job->payload_len, job->inline_size));
    notice_loss(job);
    vgc_output_notice(job);
}

static int explain(const struct vgc_job *job)
{
    if (job->result == VGC_OK)
        return VGC_OK;
    if (job->text != NULL && job->text[0] != '\0')
        return vgc_fail(job->result, "%s: %s", vgc_result_name(job->result), job->text);
    if (job->result == VGC_DEVICE_LOST)
        return vgc_fail(job->result, "DEVICE_LOST: the host replaced the worker of this VM while it worked on this "
                                     "request; device memory and programs are gone");
    return vgc_fail(job->result, "%s (request 0x%x, detail %u)", vgc_result_name(job->result), job->opcode,
                    job->response.detail);
}

static struct vgc_timing timing_of(const struct vgc_job *job)
{
    return (struct vgc_timing){job->response.queued_ns, job->response.exec_ns, job->end_ns - job->start_ns};
}

static void free_staging(struct vgc_job *job)
{
    if (job->staging != NULL)
        (void)vgc_heap_free(job->queue->device, job->staging);
    job->staging = NULL;
}

/* Once per job, by a thread that waits for it: outputs into the caller's buffers, staging back to the heap. */
static int finish(struct vgc_job *job)
{
    last_timing = timing_of(job);
    if (!job->finished) {
        if (job->result == VGC_OK || job->copy_on_error)
            for (uint32_t i = 0; i < job->num_copies; i++)
                memcpy(job->copies[i].dst, job->copies[i].src, job->copies[i].size);
        free_staging(job);
        job->finished = true;
    }
    return explain(job);
}

/* ---- public --------------------------------------------------------------------------------- */

static bool is_done(const struct vgc_job *job)
{
    return atomic_load_explicit(&job->done, memory_order_acquire);
}

int vgc_job_wait(struct vgc_job *job, uint64_t timeout_ns)
{
    struct vgc_queue *queue = job->queue;
    bool patient = timeout_ns == UINT64_MAX;
    if (!is_done(job)) {
        uint64_t since_ns = 0;
        uint64_t deadline_ns = vgc_deadline(patient ? queue->device->request_timeout_ns : timeout_ns);
        pthread_mutex_lock(&queue->mutex);
        vgc_queue_take_completions(queue);
        while (!is_done(job) && vgc_queue_pause(queue, &since_ns, deadline_ns)) {
        }
        pthread_mutex_unlock(&queue->mutex);
    }
    if (is_done(job))
        return finish(job);
    if (!patient)
        return VGC_PENDING;
    return vgc_fail(VGC_NO_ANSWER, "the device did not answer request 0x%x within %.1f s", job->opcode,
                    (double)queue->device->request_timeout_ns / (double)VGC_NS_PER_S);
}

int vgc_job_poll(struct vgc_job *job)
{
    if (!is_done(job)) {
        pthread_mutex_lock(&job->queue->mutex);
        vgc_queue_take_completions(job->queue);
        pthread_mutex_unlock(&job->queue->mutex);
    }
    return is_done(job) ? finish(job) : VGC_PENDING;
}

int vgc_job_timing(struct vgc_job *job, struct vgc_timing *timing)
{
    if (!is_done(job))
        return VGC_PENDING;
    *timing = timing_of(job);
    return VGC_OK;
}

void vgc_last_timing(struct vgc_timing *timing)
{
    *timing = last_timing;
}

void vgc_job_release(struct vgc_job *job)
{
    if (job == NULL)
        return;
    struct vgc_queue *queue = job->queue;
    vgc_job_drop(job);
    vgc_queue_sweep(queue);
}

void vgc_job_drop(struct vgc_job *job)
{
    struct vgc_queue *queue = job->queue;
    if (is_done(job))
        free_staging(job);
    pthread_mutex_lock(&queue->mutex);
    if (!is_done(job)) {
        job->abandoned = true;
    } else if (job->staging != NULL) { /* it ended just now */
        job->next_free = queue->orphans;
        queue->orphans = job;
    } else {
        vgc_job_recycle(job);
    }
    pthread_mutex_unlock(&queue->mutex);
}

/* Orphans hold staging memory, which must not be freed under the queue's mutex (see the lock order). */
void vgc_queue_sweep(struct vgc_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct vgc_job *orphan;
    while ((orphan = queue->orphans) != NULL) {
        queue->orphans = orphan->next_free;
        pthread_mutex_unlock(&queue->mutex);
        free_staging(orphan);
        pthread_mutex_lock(&queue->mutex);
        vgc_job_recycle(orphan);
    }
    pthread_mutex_unlock(&queue->mutex);
}
