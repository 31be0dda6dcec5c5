/* The clock, and waiting by it. */
#include <time.h>

#include "../internal.h"

uint64_t vgc_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * VGC_NS_PER_S + (uint64_t)now.tv_nsec;
}

void vgc_nap(uint64_t ns)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)VGC_MIN(ns, VGC_NS_PER_S - 1)};
    (void)nanosleep(&pause, NULL);
}

void vgc_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void vgc_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    struct timespec at = {(time_t)(deadline_ns / VGC_NS_PER_S), (long)(deadline_ns % VGC_NS_PER_S)};
    (void)pthread_cond_timedwait(condition, mutex, &at);
}
