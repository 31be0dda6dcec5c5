/* Queues of this process: claim, publish, take completions, wait.
 *
 * One thread at a time sleeps in the transport for a queue (`sleeping`); the others wait for `changed`. Completions
 * are taken by whoever holds the mutex, for everybody. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#if defined(__x86_64__) || defined(__i386__)
#define CPU_RELAX() __builtin_ia32_pause()
#else
#define CPU_RELAX() __asm__ volatile("" ::: "memory")
#endif

enum { SPINS_BETWEEN_LOOKS = 16 };
static const uint64_t LONGEST_SLEEP_NS = 100 * VGC_NS_PER_MS; /* a stopped device is noticed after this long */

static _Thread_local struct {
    struct vgc_device *device;
    uint64_t serial;
    struct vgc_queue *queue;
} own;

struct vgc_queue *vgc_queue_current(struct vgc_device *device)
{
    return own.device == device && own.serial == device->serial ? own.queue : device->shared_queue;
}

void vgc_queue_set_current(struct vgc_device *device, struct vgc_queue *queue)
{
    own.device = queue != NULL ? device : NULL;
    own.serial = device->serial;
    own.queue = queue;
}

/* ---- claiming ------------------------------------------------------------------------------- */

static void init_sync(struct vgc_queue *queue)
{
    vgc_cond_init(&queue->changed);
    (void)pthread_mutex_init(&queue->mutex, NULL);
}

static uint32_t slots_wanted(const struct vgc_device *device)
{
    uint64_t data_bytes = device->layout.num_chunks * device->layout.chunk_bytes;
    uint64_t fair = data_bytes / 4 / device->layout.num_queues / VGC_SLOT_STRIDE;
    uint64_t slots = VGC_MIN(fair, VGC_MIN(device->layout.ring_size, (uint32_t)VGC_MAX_SLOTS));
    return (uint32_t)VGC_MAX(slots, VGC_MIN(4u, device->layout.ring_size));
}

static int take_ring(struct vgc_queue *queue)
{
    struct vgc_device *device = queue->device;
    bool event_idx = device->transport->features >> VGC_F_RING_EVENT_IDX & 1;
    struct vgc_ring ring = vgc_layout_ring(&device->layout, device->transport->region, queue->index);
    int error = vgc_vq_driver_attach(&queue->vq, ring, event_idx);
    if (error != 0)
        return vgc_fail(VGC_INTERNAL, "queue %u cannot be taken over: %s", queue->index, strerror(-error));
    vgc_vq_disable_call(&queue->vq);
    return device->transport->ops->attach(device->transport, queue->index);
}

static void free_queue(struct vgc_queue *queue)
{
    while (queue->free_jobs != NULL) {
        struct vgc_job *next = queue->free_jobs->next_free;
        free(queue->free_jobs);
        queue->free_jobs = next;
    }
    (void)pthread_cond_destroy(&queue->changed);
    (void)pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

int vgc_queue_open(struct vgc_device *device, struct vgc_queue **out, uint64_t deadline_ns)
{
    struct vgc_queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    queue->device = device;
    init_sync(queue);
    int result = vgc_state_claim_queue(device, &queue->index, deadline_ns);
    if (result != VGC_OK) {
        free_queue(queue);
        return result;
    }
    queue->num_slots = queue->num_free = slots_wanted(device);
    for (uint32_t i = 0; i < queue->num_slots; i++)
        queue->free_slots[i] = (uint16_t)(queue->num_slots - 1 - i);
    result = vgc_heap_alloc(device, (uint64_t)queue->num_slots * VGC_SLOT_STRIDE, &queue->slots);
    if (result == VGC_OK)
        result = take_ring(queue);
    if (result != VGC_OK) {
        if (queue->slots != NULL)
            (void)vgc_heap_free(device, queue->slots);
        vgc_state_release_queue(device, queue->index);
        free_queue(queue);
        return result;
    }
    pthread_mutex_lock(&device->queues_mutex);
    device->queues[queue->index] = queue;
    pthread_mutex_unlock(&device->queues_mutex);
    *out = queue;
    return VGC_OK;
}

bool vgc_queue_close(struct vgc_queue *queue, uint64_t deadline_ns)
{
    struct vgc_device *device = queue->device;
    bool quiet = vgc_queue_drain(queue, UINT32_MAX, deadline_ns) && !queue->broken;
    vgc_queue_sweep(queue);
    if (!quiet) /* ring and slots stay claimed: the device may still write there */
        return false;
    (void)vgc_heap_free(device, queue->slots);
    vgc_state_release_queue(device, queue->index);
    vgc_queue_discard(queue);
    return true;
}

void vgc_queue_discard(struct vgc_queue *queue)
{
    struct vgc_device *device = queue->device;
    pthread_mutex_lock(&device->queues_mutex);
    device->queues[queue->index] = NULL;
    pthread_mutex_unlock(&device->queues_mutex);
    device->transport->ops->detach(device->transport, queue->index);
    for (uint32_t slot = 0; slot < queue->num_slots; slot++)
        if (queue->slot_jobs[slot] != NULL)
            vgc_job_recycle(queue->slot_jobs[slot]);
    free_queue(queue);
}

/* ---- completions ---------------------------------------------------------------------------- */

static void quota_give_back(struct vgc_device *device)
{
    atomic_fetch_sub_explicit(&device->state->in_flight, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&vgc_state_self(device)->in_flight, 1, memory_order_relaxed);
}

static void free_slot(struct vgc_queue *queue, uint32_t slot)
{
    queue->slot_jobs[slot] = NULL;
    queue->free_slots[queue->num_free++] = (uint16_t)slot;
}

/* The first one; but one request is to blame for a device that is lost, and others may be answered before it. */
static void keep_failure(struct vgc_device *device, struct vgc_job *job)
{
    pthread_mutex_lock(&device->failure_mutex);
    bool tells_more = device->failure == VGC_DEVICE_LOST && job->result != VGC_DEVICE_LOST;
    if ((device->failure == VGC_OK || tells_more) && job->epoch == device->epoch) {
        device->failure = job->result;
        free(device->failure_text);
        device->failure_text = job->text;
        job->text = NULL;
    }
    pthread_mutex_unlock(&device->failure_mutex);
}

static void finish_job(struct vgc_queue *queue, struct vgc_job *job)
{
    if (job->detached && job->result != VGC_OK)
        keep_failure(queue->device, job);
    job->end_ns = vgc_now_ns();
    vgc_trace_answered(job);
    free_slot(queue, job->slot);
    quota_give_back(queue->device);
    atomic_store_explicit(&job->done, true, memory_order_release);
    if (job->abandoned) {
        job->next_free = queue->orphans;
        queue->orphans = job;
    }
}

void vgc_queue_take_completions(struct vgc_queue *queue)
{
    void *token;
    uint32_t len;
    int taken;
    if (queue->broken)
        return;
    while ((taken = vgc_vq_take(&queue->vq, &token, &len)) == 1) {
        struct vgc_job *job = token;
        vgc_job_read_response(job, queue->slots + (size_t)job->slot * VGC_SLOT_STRIDE, len);
        finish_job(queue, job);
    }
    if (taken == 0)
        return;
    queue->broken = true; /* the ring holds nonsense: nothing on it will be answered */
    for (uint32_t slot = 0; slot < queue->num_slots; slot++) {
        struct vgc_job *job = queue->slot_jobs[slot];
        if (job == NULL)
            continue;
        job->result = VGC_DEVICE_LOST;
        finish_job(queue, job);
    }
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool has_used(const struct vgc_queue *queue)
{
    uint16_t last = __atomic_load_n(&queue->vq.last_used, __ATOMIC_RELAXED); /* a stale value only costs a look */
    return vgc_le16(__atomic_load_n(&queue->vq.ring.used[1], __ATOMIC_RELAXED)) != last;
}

static void wait_for_sleeper(struct vgc_queue *queue, uint64_t deadline_ns)
{
    uint64_t until = VGC_MIN(deadline_ns, vgc_now_ns() + LONGEST_SLEEP_NS);
    uint64_t since_ns = vgc_traces ? vgc_now_ns() : 0;
    int cancel = vgc_cancel_off();
    vgc_cond_wait_until(&queue->changed, &queue->mutex, until);
    vgc_cancel_back(cancel);
    vgc_trace_slept(queue, since_ns);
}

static void sleep_for_all(struct vgc_queue *queue, uint64_t now_ns, uint64_t deadline_ns)
{
    struct vgc_transport *transport = queue->device->transport;
    queue->sleeping = true;
    transport->ops->arm(transport, queue->index);
    if (!vgc_vq_enable_call(&queue->vq)) {
        pthread_mutex_unlock(&queue->mutex);
        int cancel = vgc_cancel_off();
        transport->ops->wait(transport, queue->index, VGC_MIN(deadline_ns - now_ns, LONGEST_SLEEP_NS));
        vgc_cancel_back(cancel);
        vgc_trace_slept(queue, now_ns);
        pthread_mutex_lock(&queue->mutex);
    }
    vgc_vq_disable_call(&queue->vq);
    queue->sleeping = false;
    (void)pthread_cond_broadcast(&queue->changed);
}

static void spin(struct vgc_queue *queue)
{
    pthread_mutex_unlock(&queue->mutex);
    for (int i = 0; i < SPINS_BETWEEN_LOOKS && !has_used(queue); i++)
        CPU_RELAX();
    pthread_mutex_lock(&queue->mutex);
}

bool vgc_queue_pause(struct vgc_queue *queue, uint64_t *since_ns, uint64_t deadline_ns)
{
    uint64_t now = vgc_now_ns();
    if (*since_ns == 0)
        *since_ns = now;
    if (now >= deadline_ns)
        return false;
    if (now - *since_ns < queue->device->spin_ns)
        spin(queue);
    else if (queue->sleeping)
        wait_for_sleeper(queue, deadline_ns);
    else
        sleep_for_all(queue, now, deadline_ns);
    vgc_queue_take_completions(queue);
    return true;
}

static bool any_in_flight(const struct vgc_queue *queue, uint32_t stream)
{
    for (uint32_t slot = 0; slot < queue->num_slots; slot++) {
        const struct vgc_job *job = queue->slot_jobs[slot];
        if (job != NULL && (stream == UINT32_MAX || job->stream == stream))
            return true;
    }
    return false;
}

bool vgc_queue_drain(struct vgc_queue *queue, uint32_t stream, uint64_t deadline_ns)
{
    uint64_t since_ns = 0;
    pthread_mutex_lock(&queue->mutex);
    vgc_queue_take_completions(queue);
    bool busy;
    while ((busy = any_in_flight(queue, stream)) && vgc_queue_pause(queue, &since_ns, deadline_ns)) {
    }
    pthread_mutex_unlock(&queue->mutex);
    return !busy;
}

int vgc_drain(struct vgc_device *device, uint32_t stream)
{
    uint64_t deadline_ns = vgc_deadline(device->request_timeout_ns);
    bool quiet = true;
    pthread_mutex_lock(&device->queues_mutex);
    for (uint32_t i = 0; i < VGC_MAX_QUEUES && quiet; i++)
        if (device->queues[i] != NULL)
            quiet = vgc_queue_drain(device->queues[i], stream, deadline_ns);
    pthread_mutex_unlock(&device->queues_mutex);
    return quiet ? VGC_OK
                 : vgc_fail(VGC_NO_ANSWER, "requests are still in flight after %.1f s",
                            (double)atomic_load(&device->request_timeout_ns) / (double)VGC_NS_PER_S);
}

/* Orphans hold staging memory, which must not be freed under the queue's mutex (see the lock order). */
void vgc_queue_sweep(struct vgc_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct vgc_job *orphan;
    while ((orphan = queue->orphans) != NULL) {
        queue->orphans = orphan->next_free;
        pthread_mutex_unlock(&queue->mutex);
        vgc_job_free_staging(orphan);
        pthread_mutex_lock(&queue->mutex);
        vgc_job_recycle(orphan);
    }
    pthread_mutex_unlock(&queue->mutex);
}
