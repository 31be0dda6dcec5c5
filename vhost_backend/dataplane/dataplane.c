/* Creation and end of a data plane, and the loop: serve, reap, poll; spin for a while; sleep. */
#include "internal.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_CHECK = 64,            /* idle rounds between two readings of the clock */
    LONE_SPIN_NS = 5000,        /* time of spinning after which others may have this CPU in between */
    BUSY_CHECK = 512,           /* busy rounds between two checks of deadlines */
    UNKICKED_POLL_NS = 1000000, /* polling interval of a ring without kick eventfd */
    MAX_SLEEP_NS = 1000000000,  /* longest sleep while launches run */
};

/* ---- loop --------------------------------------------------------------------------------------------------- */

static void break_all_queues(struct vgc_dp *dp)
{
    for (uint32_t i = 0; i < dp->config.num_queues; i++)
        if (dp->queues[i].started)
            vgc_queue_break(dp, &dp->queues[i], "the file behind the VM's region was truncated");
}

/* Works one round. True if anything was done. */
static bool work_once(struct vgc_dp *dp)
{
    bool busy = vgc_reap(dp);
    for (uint32_t i = 0; i < dp->num_active; i++)
        busy |= vgc_queue_serve(dp, dp->active[i]);
    if (VGC_UNLIKELY(atomic_load_explicit(&dp->engine->poll_wanted, memory_order_relaxed)))
        atomic_store(&dp->engine->poll_wanted, false);
    if (dp->engine->ops->poll != NULL && dp->engine->ops->poll(dp->engine)) {
        *(volatile uint64_t *)&dp->shared->pieces += 1;
        busy = true;
    }
    if (VGC_UNLIKELY(atomic_load_explicit(&dp->region_lost, memory_order_relaxed))) {
        atomic_store(&dp->region_lost, false);
        break_all_queues(dp);
    }
    if (VGC_UNLIKELY(atomic_load_explicit(&dp->echo_wanted, memory_order_relaxed))) {
        atomic_store(&dp->echo_wanted, false);
        atomic_fetch_add(&dp->echoes, 1);
        vgc_notify(dp);
    }
    return busy;
}

/* Requests to be woken by kicks, the engine and other threads; true if there is work already. */
static bool prepare_to_sleep(struct vgc_dp *dp)
{
    bool missed = false;
    atomic_store(&dp->sleeping, true);
    atomic_store(&dp->engine->sleeping, true);
    for (uint32_t i = 0; i < dp->num_active; i++)
        missed |= vgc_vq_enable_kick(&dp->active[i]->vq);
    return missed || atomic_load(&dp->engine->finished) != NULL || atomic_load(&dp->engine->poll_wanted) ||
           atomic_load(&dp->lock_wanted) != 0;
}

static void awake(struct vgc_dp *dp)
{
    atomic_store_explicit(&dp->engine->sleeping, false, memory_order_relaxed);
    atomic_store_explicit(&dp->sleeping, false, memory_order_relaxed);
    for (uint32_t i = 0; i < dp->num_active; i++)
        vgc_vq_disable_kick(&dp->active[i]->vq);
}

/* Longest sleep in ns; UINT64_MAX: until an event. */
static uint64_t sleep_limit_ns(struct vgc_dp *dp)
{
    uint64_t now_ns = vgc_now_ns();
    uint64_t limit_ns = vgc_deadlines_check(dp, now_ns);
    if (limit_ns != UINT64_MAX && limit_ns > MAX_SLEEP_NS)
        limit_ns = MAX_SLEEP_NS;
    for (uint32_t i = 0; i < dp->num_active; i++)
        if (dp->active[i]->kick_fd < 0 && limit_ns > UNKICKED_POLL_NS)
            limit_ns = UNKICKED_POLL_NS;
    if (dp->engine->ops->nap_ns != NULL) {
        uint64_t nap_ns = dp->engine->ops->nap_ns(dp->engine, now_ns);
        limit_ns = nap_ns < limit_ns ? nap_ns : limit_ns;
    }
    return limit_ns;
}

/* epoll_wait() with a limit in ns; rounded up to ms on kernels before 5.11. */
static int wait_for_events(int epoll_fd, uint64_t limit_ns)
{
    struct epoll_event events[8];
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000), .tv_nsec = (long)(limit_ns % 1000000000)};
    int count = epoll_pwait2(epoll_fd, events, 8, limit_ns == UINT64_MAX ? NULL : &limit, NULL);
    if (count < 0 && (errno == ENOSYS || errno == EPERM))
        count = epoll_wait(epoll_fd, events, 8, limit_ns == UINT64_MAX ? -1 : (int)((limit_ns + 999999) / 1000000));
    return count;
}

/* Sleeps until an event; false if the time is over without one. All eventfds are edge-triggered, so they are not read.
 */
static bool sleep_once(struct vgc_dp *dp)
{
    uint64_t limit_ns = sleep_limit_ns(dp);
    int count = 1;
    if (!prepare_to_sleep(dp)) {
        dp->sleeps++;
        vgc_mutex_give(dp);
        count = wait_for_events(dp->epoll_fd, limit_ns);
        if (count < 0 && errno == EBADF)
            vgc_engine_fatal(dp->engine, NULL, VGC_STATUS_INTERNAL, 0, /* the loop would never wake again */
                             "guest code has closed the data plane's descriptors");
        vgc_mutex_take(dp);
    }
    awake(dp);
    return count != 0;
}

void vgc_dp_run(struct vgc_dp *dp)
{
    uint64_t idle_since_ns = 0; /* 0: not idle */
    uint32_t rounds = 0;
    bool just_woken = false;
    if (vgc_watch_start(dp) != 0)
        vgc_engine_fatal(dp->engine, NULL, VGC_STATUS_INTERNAL, 0,
                         "the thread that watches deadlines cannot be started");
    vgc_mutex_take(dp);
    while (!atomic_load_explicit(&dp->stopping, memory_order_relaxed)) {
        if (VGC_UNLIKELY(atomic_load_explicit(&dp->lock_wanted, memory_order_relaxed) != 0))
            vgc_mutex_make_way(dp);
        rounds++;
        vgc_beat(dp);
        if (work_once(dp)) {
            idle_since_ns = 0;
            if (VGC_UNLIKELY(atomic_load_explicit(&dp->armed, memory_order_relaxed))) {
                atomic_store(&dp->armed, false);
                vgc_notify(dp);
            }
            if (VGC_UNLIKELY(rounds % BUSY_CHECK == 0))
                vgc_deadlines_check(dp, vgc_now_ns());
            continue;
        }
        if (dp->ops_queued != 0 || just_woken)
            sched_yield(); /* the engine's threads, or the driver that has kicked, may need this CPU to go on */
        else
            __builtin_ia32_pause();
        just_woken = false;
        if (dp->config.spin_ns != 0 && rounds % SPIN_CHECK != 0)
            continue;
        uint64_t now_ns = vgc_now_ns();
        if (idle_since_ns == 0)
            idle_since_ns = now_ns;
        if (now_ns - idle_since_ns >= LONE_SPIN_NS)
            sched_yield();
        if (now_ns - idle_since_ns >= dp->config.spin_ns) {
            bool woken = sleep_once(dp);
            just_woken = woken;
            idle_since_ns = woken ? 0 : now_ns - dp->config.spin_ns; /* without an event, sleeps again at once */
        }
    }
    vgc_mutex_give(dp);
    vgc_watch_stop(dp);
}

void vgc_dp_stop(struct vgc_dp *dp)
{
    atomic_store(&dp->stopping, true);
    vgc_signal_fd(dp->control_fd);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void *reserve(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t reqs_bytes(void)
{
    return (size_t)VGC_MAX_REQS * sizeof(struct vgc_req);
}

/* Brings the pool to `count` requests, if it has fewer. The rest of its room is not memory, but addresses. */
static int grow_pool(struct vgc_dp *dp, uint32_t count)
{
    if (count <= dp->num_reqs)
        return 0;
    if (mprotect(dp->reqs, (size_t)count * sizeof(struct vgc_req), PROT_READ | PROT_WRITE) != 0)
        return -errno;
    dp->num_reqs = count;
    if (dp->free_reqs == NULL)
        vgc_req_begin_another(dp);
    return 0;
}

/* Reserves tables at their largest size; only used pages become resident. */
static int reserve_tables(struct vgc_dp *dp)
{
    void *reqs = mmap(NULL, reqs_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    dp->reqs = reqs == MAP_FAILED ? NULL : reqs;
    dp->allocs = reserve(VGC_MAX_ALLOCATIONS * sizeof(struct vgc_alloc));
    dp->functions = reserve(VGC_MAX_FUNCTIONS * sizeof(struct vgc_function));
    dp->calls = reserve(VGC_MAX_CALLS * sizeof(struct vgc_call));
    return dp->reqs && dp->allocs && dp->functions && dp->calls ? 0 : -ENOMEM;
}

static void release(void *memory, size_t size)
{
    if (memory != NULL)
        munmap(memory, size);
}

static void release_tables(struct vgc_dp *dp)
{
    release(dp->reqs, reqs_bytes());
    release(dp->allocs, VGC_MAX_ALLOCATIONS * sizeof(struct vgc_alloc));
    release(dp->functions, VGC_MAX_FUNCTIONS * sizeof(struct vgc_function));
    release(dp->calls, VGC_MAX_CALLS * sizeof(struct vgc_call));
}

static int watch(struct vgc_dp *dp, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    return epoll_ctl(dp->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_fds(struct vgc_dp *dp)
{
    dp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    dp->control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dp->notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dp->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (dp->epoll_fd < 0 || dp->control_fd < 0 || dp->notify_fd < 0 || dp->wake_fd < 0)
        return -errno;
    return watch(dp, dp->control_fd) || watch(dp, dp->wake_fd) ? -errno : 0;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static bool limits_are_valid(uint32_t queue_depth, uint32_t contexts, uint32_t streams, uint64_t deadline_ns)
{
    return queue_depth >= 1 && queue_depth < VGC_MAX_REQS && contexts >= 1 && contexts <= VGC_MAX_CONTEXTS &&
           streams >= 1 && streams <= VGC_MAX_STREAMS && deadline_ns >= 1;
}

static bool config_is_valid(const struct vgc_dp_config *config)
{
    return config->engine != NULL && config->num_queues >= 1 && config->num_queues <= VGC_MAX_QUEUES &&
           limits_are_valid(config->queue_depth, config->max_contexts, config->max_streams, config->deadline_ns);
}

static void init_queues(struct vgc_dp *dp)
{
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++) {
        struct vgc_queue *queue = &dp->queues[i];
        queue->index = i;
        queue->kick_fd = queue->call_fd = queue->err_fd = -1;
        queue->shared = &dp->shared->queues[i];
    }
}

static int set_up(struct vgc_dp *dp, char *why)
{
    int error = open_fds(dp);
    if (error == 0)
        error = reserve_tables(dp);
    if (error == 0)
        error = grow_pool(dp, dp->config.queue_depth + 1);
    if (error == 0)
        error = vgc_calls_init(dp);
    if (error == 0)
        error = vgc_sigbus_install();
    if (error != 0)
        return vgc_why(why, error, "no memory or descriptors for a data plane: %s", strerror(-error));
    error = vgc_inflight_map(dp, dp->config.inflight_fd, why);
    if (error != 0)
        return error;
    error = vgc_builtins_init(dp);
    if (error != 0)
        return vgc_why(why, error, "no memory for the table of built-in functions");
    init_queues(dp);
    dp->engine->wake_fd = dp->wake_fd;
    dp->engine->black_box = &dp->shared->black_box;
    dp->engine->dp = dp;
    return 0;
}

struct vgc_dp *vgc_dp_create(const struct vgc_dp_config *config, char *why)
{
    if (!config_is_valid(config)) {
        vgc_why(why, -EINVAL, "a limit of the data plane's configuration is out of range");
        return NULL;
    }
    struct vgc_dp *dp = reserve(sizeof(*dp));
    if (dp == NULL) {
        vgc_why(why, -ENOMEM, "no memory for a data plane");
        return NULL;
    }
    dp->config = *config;
    dp->engine = config->engine;
    dp->epoll_fd = dp->control_fd = dp->notify_fd = dp->wake_fd = -1;
    vgc_tallies_init(dp);
    pthread_mutex_init(&dp->mutex, NULL);
    if (set_up(dp, why) != 0) {
        vgc_dp_destroy(dp);
        return NULL;
    }
    return dp;
}

static int offer_pes(struct vgc_dp *dp, uint32_t count)
{
    if (count == 0 || count == (dp->offered_pes != 0 ? dp->offered_pes : dp->engine->num_pes))
        return 0;
    int error = dp->engine->ops->offer_pes != NULL ? dp->engine->ops->offer_pes(dp->engine, count) : -ENOTSUP;
    dp->offered_pes = error == 0 ? count : dp->offered_pes;
    return error;
}

static int set_limits(struct vgc_dp *dp, const struct vgc_dp_limits *limits, char *why)
{
    if (!limits_are_valid(limits->queue_depth, limits->max_contexts, limits->max_streams, limits->deadline_ns))
        return vgc_why(why, -EINVAL, "a new limit is out of range");
    int error = grow_pool(dp, limits->queue_depth + 1);
    if (error != 0)
        return vgc_why(why, error, "no memory for %u requests in flight", limits->queue_depth);
    error = offer_pes(dp, limits->num_pes);
    if (error != 0)
        return vgc_why(why, error, "%u processing elements; this worker has %u, and the engine %s cannot change that",
                       limits->num_pes, dp->engine->num_pes, dp->engine->ops->name);
    dp->config.queue_depth = limits->queue_depth;
    dp->config.memory_bytes = limits->memory_bytes;
    dp->config.max_contexts = limits->max_contexts;
    dp->config.max_streams = limits->max_streams;
    dp->config.allotment = limits->allotment;
    vgc_deadline_set(dp, limits->deadline_ns);
    if (dp->memory_used > dp->config.memory_bytes)
        vgc_temp_drop_all(dp);
    return 0;
}

int vgc_dp_set_limits(struct vgc_dp *dp, const struct vgc_dp_limits *limits, char *why)
{
    vgc_dp_lock(dp);
    int error = set_limits(dp, limits, why);
    vgc_dp_unlock(dp);
    return error;
}

/* Cancels all operations and waits: the engine must not own any when the pool is freed. */
static void cancel_all(struct vgc_dp *dp)
{
    for (uint32_t number = 1; number <= VGC_MAX_CONTEXTS; number++)
        if (dp->contexts[number - 1].in_flight != 0)
            dp->engine->ops->cancel(dp->engine, number);
    while (dp->ops_queued != 0) {
        vgc_reap(dp);
        if (dp->engine->ops->poll != NULL)
            dp->engine->ops->poll(dp->engine);
        sched_yield();
    }
}

void vgc_dp_cancel(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    cancel_all(dp);
    vgc_dp_unlock(dp);
}

static void part_from_engine(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++)
        vgc_queue_close(dp, &dp->queues[i]);
    cancel_all(dp);
    vgc_graphs_drop_of(dp, 0);
    vgc_objects_free(dp);
    vgc_region_unmap_all(dp);
    vgc_dp_unlock(dp);
    dp->engine->black_box = NULL;
    dp->engine->dp = NULL;
    dp->engine->wake_fd = -1;
}

void vgc_dp_destroy(struct vgc_dp *dp)
{
    if (dp->reqs != NULL && dp->shared != NULL)
        part_from_engine(dp);
    vgc_inflight_unmap(dp);
    vgc_builtins_free(dp);
    release_tables(dp);
    close_fd(dp->epoll_fd);
    close_fd(dp->control_fd);
    close_fd(dp->notify_fd);
    close_fd(dp->wake_fd);
    pthread_mutex_destroy(&dp->mutex);
    munmap(dp, sizeof(*dp));
}

int vgc_dp_notify_fd(const struct vgc_dp *dp)
{
    return dp->notify_fd;
}

void vgc_dp_latency(struct vgc_dp *dp, uint64_t *counts)
{
    vgc_dp_lock(dp);
    memcpy(counts, dp->latency, sizeof(dp->latency));
    vgc_dp_unlock(dp);
}

void vgc_dp_usage(struct vgc_dp *dp, struct vgc_usage *usage)
{
    vgc_dp_lock(dp);
    vgc_usage_fill(dp, usage);
    vgc_dp_unlock(dp);
}

void vgc_dp_arm(struct vgc_dp *dp)
{
    atomic_store(&dp->armed, true);
}

bool vgc_dp_is_armed(const struct vgc_dp *dp)
{
    return atomic_load(&dp->armed);
}

void vgc_dp_echo(struct vgc_dp *dp)
{
    atomic_store(&dp->echo_wanted, true);
    vgc_signal_fd(dp->control_fd);
}

uint32_t vgc_dp_echoes(const struct vgc_dp *dp)
{
    return atomic_load(&dp->echoes);
}

uint64_t vgc_dp_sleeps(struct vgc_dp *dp)
{
    vgc_dp_lock(dp);
    uint64_t sleeps = dp->sleeps;
    vgc_dp_unlock(dp);
    return sleeps;
}
