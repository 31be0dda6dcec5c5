/* Deadlines of launches, which are checked even while the mutex is held in a call of the engine's driver.
 *
 * A driver can make its caller wait for work that runs on the device, for example when the first launch of a kernel
 * needs larger stacks. A kernel that hangs would then never be ended. With engines that have a driver, a watch thread
 * therefore checks that the mutex's holder makes progress. The watch thread takes no lock: only the stuck holder could
 * change the data that it reads. If a driver keeps its caller far longer with no launch overdue (while it loads a
 * program, for example, which no launch's deadline bounds), it counts as broken, and the worker ends. */
#include "internal.h"

#include <stdio.h>

enum { CHECKS = 4, SHORTEST_NS = 10000000, LONGEST_NS = 500000000 }; /* per deadline; bounds of the time between two */

/* ---- launches under way ------------------------------------------------------------------------------------- */

void vgc_launch_watch(struct vgc_dp *dp, struct vgc_req *req, struct vgc_op *op)
{
    req->launch_op = op;
    req->deadline_ns = dp->config.deadline_ns;
    req->launch_prev = NULL;
    req->launch_next = dp->launches;
    if (dp->launches != NULL)
        dp->launches->launch_prev = req;
    dp->launches = req;
}

void vgc_launch_unwatch(struct vgc_dp *dp, struct vgc_req *req)
{
    if (req->launch_prev != NULL)
        req->launch_prev->launch_next = req->launch_next;
    else
        dp->launches = req->launch_next;
    if (req->launch_next != NULL)
        req->launch_next->launch_prev = req->launch_prev;
    req->launch_op = NULL;
}

__attribute__((noreturn)) static void give_up(struct vgc_dp *dp, const struct vgc_req *req)
{
    const struct vgc_op *op = req->launch_op;
    char where[512] = "";
    char text[VGC_BLACK_BOX_TEXT];
    if (dp->engine->ops->describe != NULL)
        dp->engine->ops->describe(dp->engine, op, where, sizeof(where));
    snprintf(text, sizeof(text), "kernel %s ran longer than %lu ms%s%s", op->kernel->name,
             (unsigned long)(req->deadline_ns / 1000000), where[0] != '\0' ? "; " : "", where);
    vgc_engine_fatal(dp->engine, op, VGC_STATUS_TIMEOUT, 0, text);
}

void vgc_deadline_set(struct vgc_dp *dp, uint64_t deadline_ns)
{
    for (struct vgc_req *req = dp->launches; req != NULL; req = req->launch_next)
        if (req->deadline_ns < deadline_ns)
            req->deadline_ns = deadline_ns;
    __atomic_store_n(&dp->config.deadline_ns, deadline_ns, __ATOMIC_RELAXED);
}

/* A launch that has not started yet may start at any moment, so it counts as one that starts now. */
uint64_t vgc_deadlines_check(struct vgc_dp *dp, uint64_t now_ns)
{
    uint64_t soonest = UINT64_MAX;
    for (const struct vgc_req *req = dp->launches; req != NULL; req = req->launch_next) {
        uint64_t start_ns = __atomic_load_n(&req->launch_op->start_ns, __ATOMIC_RELAXED);
        uint64_t ran_ns = start_ns != 0 && now_ns > start_ns ? now_ns - start_ns : 0;
        if (ran_ns >= req->deadline_ns)
            give_up(dp, req);
        uint64_t left_ns = req->deadline_ns - ran_ns;
        soonest = left_ns < soonest ? left_ns : soonest;
    }
    return soonest;
}

/* ---- the watch thread --------------------------------------------------------------------------------------- */

/* Reads the deadline, which other threads may change. */
static uint64_t deadline_of(const struct vgc_dp *dp)
{
    return __atomic_load_n(&dp->config.deadline_ns, __ATOMIC_RELAXED);
}

static uint64_t time_between_checks(const struct vgc_dp *dp)
{
    uint64_t bound_ns = deadline_of(dp);
    if (dp->config.stuck_ns != 0 && dp->config.stuck_ns < bound_ns)
        bound_ns = dp->config.stuck_ns;
    uint64_t wanted_ns = bound_ns / CHECKS;
    return wanted_ns < SHORTEST_NS ? SHORTEST_NS : wanted_ns > LONGEST_NS ? LONGEST_NS : wanted_ns;
}

/* Sleeps until the next check; false when the watch is over. */
static bool sleep_until_next_check(struct vgc_watch *watch, uint64_t nap_ns)
{
    uint64_t until_ns = vgc_now_ns() + nap_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&watch->mutex);
    while (!watch->is_over && pthread_cond_timedwait(&watch->wake, &watch->mutex, &until) == 0)
        ;
    bool goes_on = !watch->is_over;
    pthread_mutex_unlock(&watch->mutex);
    return goes_on;
}

/* Body of the watch thread. Counts checks, not time: while the whole process is stopped, the holder is not stuck. */
static void *keep_watch(void *argument)
{
    struct vgc_dp *dp = argument;
    uint64_t stuck_ns = 0;
    uint32_t last_beat = 0;
    for (uint64_t between_ns = time_between_checks(dp); sleep_until_next_check(&dp->watch, between_ns);
         between_ns = time_between_checks(dp)) {
        uint32_t beat = atomic_load(&dp->beat);
        stuck_ns = beat == last_beat && atomic_load(&dp->held) ? stuck_ns + between_ns : 0;
        last_beat = beat;
        if (stuck_ns >= deadline_of(dp))
            vgc_deadlines_check(dp, vgc_now_ns());
        if (dp->config.stuck_ns != 0 && stuck_ns >= dp->config.stuck_ns)
            vgc_engine_fatal(dp->engine, NULL, VGC_STATUS_DEVICE_LOST, 0, "the engine's driver does not return");
    }
    return NULL;
}

int vgc_watch_start(struct vgc_dp *dp)
{
    struct vgc_watch *watch = &dp->watch;
    pthread_condattr_t monotonic;
    if (dp->engine->ops->enter == NULL)
        return 0;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&watch->mutex, NULL);
    watch->is_over = false;
    return -pthread_create(&watch->thread, NULL, keep_watch, dp);
}

void vgc_watch_stop(struct vgc_dp *dp)
{
    struct vgc_watch *watch = &dp->watch;
    if (dp->engine->ops->enter == NULL)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->is_over = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->mutex);
}
