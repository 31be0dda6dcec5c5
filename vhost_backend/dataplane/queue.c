/* Vrings: serving, starting and stopping them, replacing their eventfds, marking them as broken. */
#include "internal.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

void vgc_queues_rebuild_active(struct vgc_dp *dp)
{
    dp->num_active = 0;
    for (uint32_t i = 0; i < dp->config.num_queues; i++) {
        struct vgc_queue *queue = &dp->queues[i];
        if (vgc_queue_can_push(queue) && queue->enabled && !dp->holding)
            dp->active[dp->num_active++] = queue;
    }
}

void vgc_queue_break(struct vgc_dp *dp, struct vgc_queue *queue, const char *why)
{
    if (queue->broken)
        return;
    queue->broken = true;
    queue->broken_reported = false;
    snprintf(queue->why, sizeof(queue->why), "%s", why);
    if (queue->err_fd >= 0)
        vgc_signal_frontend(queue->err_fd, vgc_may_block(queue->err_fd));
    vgc_queues_rebuild_active(dp);
    vgc_notify(dp);
}

/* ---- serving ------------------------------------------------------------------------------------------------ */

static void take(struct vgc_dp *dp, struct vgc_queue *queue, struct vgc_req *req, int popped)
{
    vgc_req_get(dp);
    vgc_inflight_popped(queue, req->chain.head);
    req->queue = queue;
    queue->in_flight++;
    dp->in_flight++;
    req->answerable = popped == 1 && req->chain.writable_len >= sizeof(struct vgc_response);
    vgc_request_begin(dp, req);
}

/* Breaks a queue with an invalid ring; not if the region's file was truncated, as the loop then reports that reason. */
static void give_up(struct vgc_dp *dp, struct vgc_queue *queue)
{
    if (!atomic_load(&dp->region_lost))
        vgc_queue_break(dp, queue, "avail index or head out of range, or the head is in flight already");
}

/* Pops and begins up to VGC_BATCH requests. True if the avail ring had any. */
bool vgc_queue_serve(struct vgc_dp *dp, struct vgc_queue *queue)
{
    int count = 0;
    for (; count < VGC_BATCH; count++) {
        struct vgc_req *req = dp->free_reqs; /* never NULL: the pool has one request more than can be in flight */
        int popped = vgc_vq_pop(&queue->vq, &dp->mem, &req->chain);
        if (popped == 0)
            break;
        if (VGC_UNLIKELY(popped == -EIO)) {
            give_up(dp, queue);
            break;
        }
        take(dp, queue, req, popped);
    }
    if (count == 0)
        return false;
    vgc_flush_call(queue);
    return true;
}

/* ---- start and stop ----------------------------------------------------------------------------------------- */

static const char *placement_error(int error)
{
    switch (error) {
    case -EINVAL:
        return "its size is not a power of two of 1..256";
    case -EFAULT:
        return "a part of it lies outside the memory table";
    default:
        return "its parts are misaligned or overlap";
    }
}

/* Translates the ring's addresses again and keeps its indices and the heads in flight. */
static int translate(struct vgc_dp *dp, struct vgc_queue *queue, uint16_t base)
{
    const struct vgc_dp_ring *ring = &queue->ring;
    if (ring->size > VGC_MAX_QUEUE_SIZE)
        return -EINVAL;
    struct vgc_vq_device fresh;
    int error = vgc_vq_device_init(&fresh, &dp->mem, (uint16_t)ring->size, ring->desc_uva, ring->avail_uva,
                                   ring->used_uva, base, ring->event_idx, ring->indirect);
    if (error != 0)
        return error;
    if (queue->in_flight != 0) {
        memcpy(fresh.inflight, queue->vq.inflight, sizeof(fresh.inflight));
        fresh.used_idx = queue->vq.used_idx;
    }
    queue->vq = fresh;
    return 0;
}

static bool same_ring(const struct vgc_dp_ring *a, const struct vgc_dp_ring *b)
{
    return a->size == b->size && a->desc_uva == b->desc_uva && a->avail_uva == b->avail_uva &&
           a->used_uva == b->used_uva;
}

/* Returns requests that finished while the ring did not run, in the order in which they finished. */
static void deliver_parked(struct vgc_dp *dp, struct vgc_queue *queue)
{
    struct vgc_req *oldest = NULL;
    while (queue->parked != NULL) {
        struct vgc_req *req = queue->parked;
        queue->parked = req->next;
        req->next = oldest;
        oldest = req;
    }
    while (oldest != NULL) {
        struct vgc_req *next = oldest->next;
        vgc_deliver(dp, oldest);
        oldest = next;
    }
    vgc_flush_call(queue);
}

static void replace_fd(int *slot, int fd)
{
    if (*slot >= 0)
        close(*slot); /* closing removes it from the epoll set only if no duplicate exists: see watch_kick */
    *slot = fd;
}

static void take_call(struct vgc_queue *queue, int fd)
{
    replace_fd(&queue->call_fd, fd);
    queue->call_may_block = fd >= 0 && vgc_may_block(fd);
}

static int watch_kick(struct vgc_dp *dp, struct vgc_queue *queue, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    if (queue->kick_fd >= 0)
        epoll_ctl(dp->epoll_fd, EPOLL_CTL_DEL, queue->kick_fd, NULL); /* the daemon holds the same eventfd */
    replace_fd(&queue->kick_fd, fd);
    if (fd >= 0 && epoll_ctl(dp->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return -errno;
    return 0;
}

static int take_fds(struct vgc_dp *dp, struct vgc_queue *queue, const struct vgc_dp_ring *ring)
{
    take_call(queue, ring->call_fd);
    replace_fd(&queue->err_fd, ring->err_fd);
    return watch_kick(dp, queue, ring->kick_fd);
}

static int check_start(struct vgc_dp *dp, struct vgc_queue *queue, const struct vgc_dp_ring *ring, char *why)
{
    (void)dp;
    if (queue->started)
        return vgc_why(why, -EALREADY, "vring %u is running already", queue->index);
    if (queue->in_flight != 0 && !(same_ring(&queue->ring, ring) && queue->vq.last_avail == ring->base))
        return vgc_why(why, -EBUSY, "vring %u: %u requests of its earlier ring are in flight", queue->index,
                       queue->in_flight);
    return 0;
}

static int start(struct vgc_dp *dp, struct vgc_queue *queue, const struct vgc_dp_ring *ring, char *why)
{
    int error = take_fds(dp, queue, ring);
    if (error != 0)
        return vgc_why(why, error, "vring %u: its kick fd is not an eventfd", queue->index);
    error = check_start(dp, queue, ring, why);
    if (error != 0)
        return error;
    queue->ring = *ring;
    error = translate(dp, queue, ring->base);
    if (error != 0)
        return vgc_why(why, error, "vring %u: %s", queue->index, placement_error(error));
    queue->started = queue->mapped = true;
    queue->broken = queue->broken_reported = false;
    queue->enabled = ring->enabled;
    queue->shared->started = 1;
    if (ring->recover)
        vgc_inflight_recover(dp, queue);
    queue->shared->last_avail = queue->vq.last_avail;
    queue->shared->used_idx = queue->vq.used_idx;
    vgc_queues_rebuild_active(dp);
    deliver_parked(dp, queue);
    if (ring->recover && queue->call_fd >= 0)
        vgc_signal_frontend(queue->call_fd,
                            queue->call_may_block); /* the earlier worker may have died before its call */
    vgc_vq_disable_kick(&queue->vq);
    return 0;
}

static void close_fds_of(const struct vgc_dp_ring *ring)
{
    int fds[] = {ring->kick_fd, ring->call_fd, ring->err_fd};
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int vgc_dp_queue_start(struct vgc_dp *dp, uint32_t index, const struct vgc_dp_ring *ring, char *why)
{
    if (index >= dp->config.num_queues) {
        close_fds_of(ring);
        return vgc_why(why, -EINVAL, "vring %u; allowed: 0..%u", index, dp->config.num_queues - 1);
    }
    vgc_dp_lock(dp);
    struct vgc_queue *queue = &dp->queues[index];
    int error = start(dp, queue, ring, why);
    if (error != 0 && !queue->started && queue->err_fd >= 0)
        vgc_signal_frontend(queue->err_fd,
                            vgc_may_block(queue->err_fd)); /* the frontend's only sign that the ring is misplaced */
    vgc_dp_unlock(dp);
    return error;
}

int vgc_dp_queue_stop(struct vgc_dp *dp, uint32_t index)
{
    if (index >= dp->config.num_queues)
        return -EINVAL;
    vgc_dp_lock(dp);
    struct vgc_queue *queue = &dp->queues[index];
    int base = queue->started ? queue->vq.last_avail : -ENOENT;
    queue->started = false;
    watch_kick(dp, queue, -1);
    take_call(queue, -1);
    replace_fd(&queue->err_fd, -1);
    vgc_queues_rebuild_active(dp);
    vgc_dp_unlock(dp);
    return base;
}

int vgc_dp_queue_enable(struct vgc_dp *dp, uint32_t index, bool enabled)
{
    if (index >= dp->config.num_queues)
        return -EINVAL;
    vgc_dp_lock(dp);
    dp->queues[index].enabled = enabled;
    vgc_queues_rebuild_active(dp);
    vgc_dp_unlock(dp);
    return 0;
}

int vgc_dp_queue_set_kick(struct vgc_dp *dp, uint32_t index, int fd)
{
    if (index >= dp->config.num_queues) {
        replace_fd(&fd, -1);
        return -EINVAL;
    }
    vgc_dp_lock(dp);
    int error = watch_kick(dp, &dp->queues[index], fd);
    vgc_dp_unlock(dp);
    return error;
}

/* Replaces the call descriptor and signals the new one, since a call may have gone to the old one only. */
int vgc_dp_queue_set_call(struct vgc_dp *dp, uint32_t index, int fd)
{
    if (index >= dp->config.num_queues) {
        replace_fd(&fd, -1);
        return -EINVAL;
    }
    vgc_dp_lock(dp);
    struct vgc_queue *queue = &dp->queues[index];
    take_call(queue, fd);
    if (fd >= 0 && queue->started)
        vgc_signal_frontend(fd, queue->call_may_block);
    vgc_dp_unlock(dp);
    return 0;
}

int vgc_dp_broken_take(struct vgc_dp *dp, uint32_t *index, char *why)
{
    int found = 0;
    vgc_dp_lock(dp);
    for (uint32_t i = 0; i < dp->config.num_queues && !found; i++) {
        struct vgc_queue *queue = &dp->queues[i];
        if (!queue->broken || queue->broken_reported)
            continue;
        queue->broken_reported = true;
        *index = i;
        memcpy(why, queue->why, VGC_DP_WHY);
        found = 1;
    }
    vgc_dp_unlock(dp);
    return found;
}

/* Translates all rings after a change of the memory table. A ring that the table lacks rests until a later one has it.
 */
void vgc_queues_remap(struct vgc_dp *dp)
{
    for (uint32_t i = 0; i < dp->config.num_queues; i++) {
        struct vgc_queue *queue = &dp->queues[i];
        if (!queue->started || queue->broken)
            continue;
        uint16_t used_idx = queue->vq.used_idx;
        queue->mapped = translate(dp, queue, queue->vq.last_avail) == 0;
        queue->vq.used_idx = used_idx;
        if (queue->mapped)
            deliver_parked(dp, queue);
    }
    vgc_queues_rebuild_active(dp);
}

void vgc_queue_close(struct vgc_dp *dp, struct vgc_queue *queue)
{
    queue->started = false;
    watch_kick(dp, queue, -1);
    take_call(queue, -1);
    replace_fd(&queue->err_fd, -1);
}
