/* Mutex of a data plane, and helpers used under it: clock, wake-ups, texts of errors. */
#include "internal.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

uint64_t vgc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int vgc_why(char *why, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, VGC_DP_WHY, format, args);
    va_end(args);
    return error;
}

void vgc_signal_fd(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written; /* EAGAIN: the counter is full, so it is readable already */
}

bool vgc_may_block(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || (flags & O_NONBLOCK) == 0;
}

/* Signals a descriptor that the frontend made: an eventfd, a pipe, a socket. One without room is readable already.
 *
 * A write that waits for room would stop all queues. O_NONBLOCK is not set here: an eventfd's reader shares it, and one
 * that sleeps in read() would get EAGAIN. (Nor could a worker set it: its system call filter protects the frontend from
 * guest code that clears the flag.) QEMU sets it itself. Other descriptors cost a poll(), after which only the frontend
 * could still take the room away. */
void vgc_signal_frontend(int fd, bool may_block)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (may_block && (poll(&room, 1, 0) != 1 || room.revents != POLLOUT))
        return;
    vgc_signal_fd(fd);
}

void vgc_notify(struct vgc_dp *dp)
{
    vgc_signal_fd(dp->notify_fd);
}

/* ---- the mutex ---------------------------------------------------------------------------------------------- */

/* Only the holder of the mutex may call the engine. */
void vgc_mutex_take(struct vgc_dp *dp)
{
    pthread_mutex_lock(&dp->mutex);
    vgc_beat(dp);
    atomic_store_explicit(&dp->held, true, memory_order_relaxed);
    if (dp->engine->ops->enter != NULL)
        dp->engine->ops->enter(dp->engine);
}

void vgc_mutex_give(struct vgc_dp *dp)
{
    if (dp->engine->ops->leave != NULL)
        dp->engine->ops->leave(dp->engine);
    atomic_store_explicit(&dp->held, false, memory_order_relaxed);
    pthread_mutex_unlock(&dp->mutex);
}

void vgc_dp_lock(struct vgc_dp *dp)
{
    atomic_fetch_add(&dp->lock_wanted, 1);
    vgc_mutex_take(dp);
    atomic_fetch_sub(&dp->lock_wanted, 1);
}

/* Wakes the loop if it sleeps: the change made under the lock may give it work. */
void vgc_dp_unlock(struct vgc_dp *dp)
{
    if (atomic_load(&dp->sleeping))
        vgc_signal_fd(dp->control_fd);
    vgc_mutex_give(dp);
}

void vgc_mutex_make_way(struct vgc_dp *dp)
{
    vgc_mutex_give(dp);
    while (atomic_load_explicit(&dp->lock_wanted, memory_order_relaxed) != 0)
        sched_yield();
    vgc_mutex_take(dp);
}
