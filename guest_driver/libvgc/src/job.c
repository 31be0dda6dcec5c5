/* Jobs: requests on their way, waited for and released, and what their answers leave to be done. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static _Thread_local struct vgc_timing last_timing;

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

/* Once per job, by a thread that waits for it: outputs into the caller's buffers, staging back to the heap. */
static int finish(struct vgc_job *job)
{
    last_timing = timing_of(job);
    if (!job->finished) {
        if (job->result == VGC_OK || job->copy_on_error)
            for (uint32_t i = 0; i < job->num_copies; i++)
                memcpy(job->copies[i].dst, job->copies[i].src, job->copies[i].size);
        vgc_job_free_staging(job);
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
    if (is_done(job)) {
        vgc_limits_follow(queue->device);
        return finish(job);
    }
    if (!patient)
        return VGC_PENDING;
    return vgc_fail(VGC_NO_ANSWER, "the device did not answer request 0x%x within %.1f s", job->opcode,
                    (double)atomic_load(&queue->device->request_timeout_ns) / (double)VGC_NS_PER_S);
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
        vgc_job_free_staging(job);
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

int vgc_detached_failure(struct vgc_device *device)
{
    if (atomic_load_explicit(&device->lost, memory_order_relaxed))
        (void)vgc_drain(device, UINT32_MAX); /* all requests are answered soon, and one of them is to blame */
    pthread_mutex_lock(&device->failure_mutex);
    int result = device->failure;
    char *text = device->failure_text;
    device->failure = VGC_OK;
    device->failure_text = NULL;
    pthread_mutex_unlock(&device->failure_mutex);
    if (result != VGC_OK)
        (void)vgc_fail(result, "%s: %s", vgc_result_name(result), text != NULL ? text : "a request failed");
    free(text);
    return result;
}

/* ---- sent and waited for -------------------------------------------------------------------- */

int vgc_job_run(struct vgc_message *message, struct vgc_job **job)
{
    message->job->detached = message->job->abandoned = job == VGC_DETACHED;
    int result = vgc_message_send(message);
    if (result != VGC_OK || job == VGC_DETACHED)
        return result;
    if (job != NULL) {
        *job = message->job;
        return VGC_OK;
    }
    result = vgc_job_wait(message->job, UINT64_MAX);
    vgc_job_release(message->job);
    return result;
}

int vgc_job_ask(struct vgc_message *message, struct vgc_response *response)
{
    int result = vgc_message_send(message);
    if (result != VGC_OK)
        return result;
    result = vgc_job_wait(message->job, UINT64_MAX);
    *response = message->job->response; /* zeros if it never came */
    vgc_job_drop(message->job);         /* no sweep: the state may be locked */
    return result;
}
