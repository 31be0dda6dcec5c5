/* Driver side of the latency and throughput rows. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "vgcb.h"

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

/* Places each part on separate cache lines, so that words of the driver and words of the device share none. */
enum { CACHE_LINE = 64 };

uint64_t vgcb_avail_offset(uint16_t num)
{
    return align_up(VGC_DESC_BYTES(num), CACHE_LINE);
}

uint64_t vgcb_used_offset(uint16_t num)
{
    return align_up(vgcb_avail_offset(num) + VGC_AVAIL_BYTES(num), CACHE_LINE);
}

uint64_t vgcb_ring_bytes(uint16_t num)
{
    return align_up(vgcb_used_offset(num) + VGC_USED_BYTES(num), CACHE_LINE);
}

int vgcb_queue_open(struct vgcb_queue *queue, uint8_t *base, uint16_t num, bool event_idx, int kick_fd, int call_fd)
{
    memset(queue, 0, sizeof(*queue));
    memset(base, 0, vgcb_ring_bytes(num));
    queue->kick_fd = kick_fd;
    queue->call_fd = call_fd;
    struct vgc_ring ring = {
        .desc = (struct vgc_desc *)(void *)base,
        .avail = (uint16_t *)(void *)(base + vgcb_avail_offset(num)),
        .used = (uint16_t *)(void *)(base + vgcb_used_offset(num)),
        .num = num,
    };
    return vgc_vq_driver_init(&queue->vq, ring, event_idx);
}

static int publish(struct vgcb_queue *queue, const struct vgcb_request *request, void *token)
{
    int head = vgc_vq_add(&queue->vq, request->sg, request->n_readable, request->n_writable, NULL, 0, token);
    return head < 0 ? head : 0;
}

static int kick_if_asked(struct vgcb_queue *queue)
{
    if (!vgc_vq_should_kick(&queue->vq)) {
        return 0;
    }
    const uint64_t one = 1;
    queue->kicks++;
    return write(queue->kick_fd, &one, sizeof(one)) == sizeof(one) ? 0 : -errno;
}

/* Takes a used chain. 1: taken; 0: none within patience_ns. */
static int spin_for_one(struct vgcb_queue *queue, uint64_t patience_ns)
{
    const uint64_t deadline = vgcb_now_ns() + patience_ns;
    void *token = NULL;
    uint32_t len = 0;
    for (;;) {
        for (int i = 0; i < 64; i++) {
            int got = vgc_vq_take(&queue->vq, &token, &len);
            if (got != 0) {
                return got;
            }
            vgcb_pause();
        }
        if (vgcb_now_ns() > deadline) {
            return 0;
        }
    }
}

static int sleep_for_one(struct vgcb_queue *queue, uint64_t patience_ns)
{
    void *token = NULL;
    uint32_t len = 0;
    const uint64_t deadline = vgcb_now_ns() + patience_ns;
    for (;;) {
        bool available = vgc_vq_enable_call(&queue->vq);
        if (!available) {
            struct pollfd waited = {.fd = queue->call_fd, .events = POLLIN};
            uint64_t now = vgcb_now_ns();
            int timeout_ms = now < deadline ? (int)((deadline - now) / 1000000u) + 1 : 0;
            int ready = poll(&waited, 1, timeout_ms);
            uint64_t calls = 0;
            if (ready < 0 || (ready > 0 && read(queue->call_fd, &calls, sizeof(calls)) < 0)) {
                return -errno;
            }
            if (ready == 0) {
                return -ETIMEDOUT;
            }
            queue->calls++;
        }
        vgc_vq_disable_call(&queue->vq);
        int got = vgc_vq_take(&queue->vq, &token, &len);
        if (got != 0) {
            return got < 0 ? got : 0;
        }
    }
}

int vgcb_polled(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t *ns_out)
{
    vgc_vq_disable_call(&queue->vq);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = vgcb_now_ns();
        int rc = publish(queue, request, queue);
        rc = rc != 0 ? rc : kick_if_asked(queue);
        if (rc != 0) {
            return rc;
        }
        int got = spin_for_one(queue, VGCB_PATIENCE_NS);
        if (got <= 0) {
            return got < 0 ? got : -ETIMEDOUT;
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
    return 0;
}

int vgcb_sleeping(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t idle_ns,
                  uint64_t *ns_out)
{
    for (uint32_t i = 0; i < count; i++) {
        vgcb_rest(idle_ns);
        int rc = vgcb_round_trip(queue, request, 0, VGCB_PATIENCE_NS, &ns_out[i]);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int vgcb_round_trip(struct vgcb_queue *queue, const struct vgcb_request *request, uint64_t spin_ns,
                    uint64_t patience_ns, uint64_t *ns_out)
{
    uint64_t start = vgcb_now_ns();
    int rc = publish(queue, request, queue);
    rc = rc != 0 ? rc : kick_if_asked(queue);
    if (rc != 0) {
        return rc;
    }
    int got = spin_ns > 0 ? spin_for_one(queue, spin_ns) : 0;
    if (got < 0) {
        return got;
    }
    rc = got == 1 ? 0 : sleep_for_one(queue, patience_ns);
    *ns_out = vgcb_now_ns() - start;
    return rc;
}

/* Takes all used chains; their requests go back onto the stack of idle requests. */
static int drain(struct vgcb_queue *queue, const struct vgcb_request **idle, uint32_t *num_idle)
{
    void *token = NULL;
    uint32_t len = 0;
    int taken = 0;
    for (int got; (got = vgc_vq_take(&queue->vq, &token, &len)) != 0; taken++) {
        if (got < 0) {
            return got;
        }
        idle[(*num_idle)++] = token;
    }
    return taken;
}

int vgcb_pipelined(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t count,
                   uint64_t *ns_out)
{
    const struct vgcb_request *idle[VGC_MAX_QUEUE_SIZE];
    if (depth == 0 || depth > VGC_MAX_QUEUE_SIZE) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < depth; i++) {
        idle[i] = &requests[i];
    }
    uint32_t num_idle = depth;
    uint64_t sent = 0;
    uint64_t done = 0;
    vgc_vq_disable_call(&queue->vq);
    uint64_t start = vgcb_now_ns();
    uint64_t progress = start;
    while (done < count) {
        int rc = 0;
        while (num_idle > 0 && sent < count && rc == 0) {
            const struct vgcb_request *request = idle[--num_idle];
            rc = publish(queue, request, (void *)(uintptr_t)request);
            sent++;
        }
        rc = rc != 0 ? rc : kick_if_asked(queue);
        int taken = rc != 0 ? rc : drain(queue, idle, &num_idle);
        if (taken < 0) {
            return taken;
        }
        if (taken > 0) {
            done += (uint64_t)taken;
            progress = 0;
        } else if (progress == 0) {
            progress = vgcb_now_ns();
        } else if (vgcb_now_ns() - progress > VGCB_PATIENCE_NS) {
            return -ETIMEDOUT;
        }
    }
    *ns_out = vgcb_now_ns() - start;
    return 0;
}

int vgcb_batch(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t count, uint64_t *ns_out)
{
    vgc_vq_disable_call(&queue->vq);
    uint64_t start = vgcb_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        int rc = publish(queue, &requests[i], queue);
        if (rc != 0) {
            return rc;
        }
    }
    int rc = kick_if_asked(queue);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        int got = spin_for_one(queue, VGCB_PATIENCE_NS);
        rc = got == 1 ? 0 : got < 0 ? got : -ETIMEDOUT;
    }
    *ns_out = vgcb_now_ns() - start;
    return rc;
}

enum { REST_NS = 20000 };

/* Takes all used chains; the number, or a negative errno. */
static int drain_all(struct vgcb_queue *queue)
{
    void *token = NULL;
    uint32_t len = 0;
    int taken = 0;
    for (int got; (got = vgc_vq_take(&queue->vq, &token, &len)) != 0; taken++) {
        if (got < 0) {
            return got;
        }
    }
    return taken;
}

int vgcb_stream(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t count, uint64_t *ns_out)
{
    uint32_t sent = 0;
    uint32_t done = 0;
    vgc_vq_disable_call(&queue->vq);
    uint64_t start = vgcb_now_ns();
    uint64_t progress_ns = start;
    while (done < count) {
        int rc = 0;
        while (sent < count && (rc = publish(queue, &requests[sent], queue)) == 0) {
            sent++;
        }
        rc = rc == -ENOSPC ? 0 : rc;
        rc = rc != 0 ? rc : kick_if_asked(queue);
        int taken = rc != 0 ? rc : drain_all(queue);
        if (taken < 0) {
            return taken;
        }
        done += (uint32_t)taken;
        uint64_t now = vgcb_now_ns();
        if (taken > 0) {
            progress_ns = now;
        } else if (now - progress_ns > VGCB_PATIENCE_NS) {
            return -ETIMEDOUT;
        } else if (sent == count && done == count - 1) {
            rc = sleep_for_one(queue, VGCB_PATIENCE_NS);
            if (rc != 0) {
                return rc;
            }
            done++;
        } else {
            vgcb_rest(REST_NS);
        }
    }
    *ns_out = vgcb_now_ns() - start;
    return 0;
}

/* Requests in flight, and requests that wait to be sent again. */
struct pool {
    const struct vgcb_request *idle[VGC_MAX_QUEUE_SIZE];
    uint32_t num_idle;
};

static int send_idle(struct vgcb_queue *queue, struct pool *pool)
{
    while (pool->num_idle > 0) {
        const struct vgcb_request *request = pool->idle[--pool->num_idle];
        int rc = publish(queue, request, (void *)(uintptr_t)request);
        if (rc != 0) {
            return rc;
        }
    }
    return kick_if_asked(queue);
}

/* Returns how many requests have ended; rests if none has, and gives up if that lasts too long. */
static int drain_or_rest(struct vgcb_queue *queue, struct pool *pool, uint64_t *progress_ns)
{
    int taken = drain(queue, pool->idle, &pool->num_idle);
    if (taken != 0) {
        *progress_ns = vgcb_now_ns();
        return taken;
    }
    vgcb_rest(REST_NS);
    return vgcb_now_ns() - *progress_ns > VGCB_PATIENCE_NS ? -ETIMEDOUT : 0;
}

int vgcb_throughput(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t from_ns,
                    uint64_t until_ns, uint64_t *done)
{
    struct pool pool = {.num_idle = depth};
    if (depth == 0 || depth > VGC_MAX_QUEUE_SIZE) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < depth; i++) {
        pool.idle[i] = &requests[i];
    }
    *done = 0;
    vgc_vq_disable_call(&queue->vq);
    uint64_t progress_ns = vgcb_now_ns();
    for (uint64_t now = progress_ns; now < until_ns;) {
        int rc = send_idle(queue, &pool);
        int taken = rc != 0 ? rc : drain_or_rest(queue, &pool, &progress_ns);
        if (taken < 0) {
            return taken;
        }
        now = vgcb_now_ns();
        *done += now >= from_ns && now < until_ns ? (uint64_t)taken : 0;
    }
    while (pool.num_idle < depth) {
        int taken = drain_or_rest(queue, &pool, &progress_ns);
        if (taken < 0) {
            return taken;
        }
    }
    return 0;
}

/* Sleeps until a chain is used; soon returns if one is. */
static int sleep_until_used(struct vgcb_queue *queue)
{
    if (!vgc_vq_enable_call(&queue->vq)) {
        struct pollfd waited = {.fd = queue->call_fd, .events = POLLIN};
        uint64_t calls = 0;
        int ready = poll(&waited, 1, (int)(VGCB_PATIENCE_NS / 1000000u));
        if (ready < 0 || (ready > 0 && read(queue->call_fd, &calls, sizeof(calls)) < 0)) {
            return -errno;
        }
        if (ready == 0) {
            return -ETIMEDOUT;
        }
        queue->calls++;
    }
    vgc_vq_disable_call(&queue->vq);
    return 0;
}

int vgcb_sustain(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth,
                 struct vgcb_sustained *sustained)
{
    struct pool pool = {.num_idle = depth};
    if (depth == 0 || depth > VGC_MAX_QUEUE_SIZE) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < depth; i++) {
        pool.idle[i] = &requests[i];
    }
    sustained->done = 0;
    vgc_vq_disable_call(&queue->vq);
    for (bool goes_on = true; goes_on || pool.num_idle < depth;) {
        goes_on = __atomic_load_n(&sustained->stop, __ATOMIC_RELAXED) == 0 &&
                  sustained->done + VGC_MAX_QUEUE_SIZE <= sustained->capacity;
        int rc = goes_on ? send_idle(queue, &pool) : 0;
        int taken = rc != 0 ? rc : drain(queue, pool.idle, &pool.num_idle);
        if (taken < 0) {
            return taken;
        }
        for (uint64_t now = vgcb_now_ns(); taken > 0; taken--) {
            sustained->ns[sustained->done++] = now;
        }
        rc = pool.num_idle < depth ? sleep_until_used(queue) : 0;
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

void vgcb_stop(struct vgcb_sustained *sustained)
{
    __atomic_store_n(&sustained->stop, 1, __ATOMIC_RELAXED);
}

uint64_t vgcb_clock(void)
{
    return vgcb_now_ns();
}
