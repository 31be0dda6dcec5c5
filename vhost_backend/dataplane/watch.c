/* Deadlines while nobody can look at them.
 *
 * Whoever has the mutex may be inside a call of the engine's driver, and a driver can make its caller wait for what
 * runs on the device: when the first launch of a kernel needs larger stacks, say. A kernel that hangs would then never
 * be ended. So with engines that have a driver a thread watches whether the mutex's owner gets on. It takes no lock;
 * what it reads stands still, for only the owner changes it. A driver that makes its caller wait for far longer, with
 * nothing overdue, is broken: loading a program, say, which no launch's deadline bounds. */
#include "internal.h"

enum { LOOKS = 4, SHORTEST_NS = 10000000, LONGEST_NS = 500000000 }; /* looks per deadline, and the time between two */

static uint64_t time_between_looks(const struct vgc_dp *dp)
{
    uint64_t bound_ns = dp->config.deadline_ns;
    if (dp->config.stuck_ns != 0 && dp->config.stuck_ns < bound_ns)
        bound_ns = dp->config.stuck_ns;
    uint64_t wanted_ns = bound_ns / LOOKS;
    return wanted_ns < SHORTEST_NS ? SHORTEST_NS : wanted_ns > LONGEST_NS ? LONGEST_NS : wanted_ns;
}

/* False when the watch is over. */
static bool sleep_until_next_look(struct vgc_watch *watch, uint64_t nap_ns)
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

/* Counts looks, not time: while the whole process is stopped nobody is stuck. */
static void *keep_watch(void *argument)
{
    struct vgc_dp *dp = argument;
    uint64_t between_ns = time_between_looks(dp);
    uint64_t stuck_ns = 0;
    uint32_t last_beat = 0;
    while (sleep_until_next_look(&dp->watch, between_ns)) {
        uint32_t beat = atomic_load(&dp->beat);
        stuck_ns = beat == last_beat && atomic_load(&dp->held) ? stuck_ns + between_ns : 0;
        last_beat = beat;
        if (stuck_ns >= dp->config.deadline_ns)
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
