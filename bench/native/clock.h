/* Clock, rest and pause for the hot loops. */
#ifndef VGCB_CLOCK_H
#define VGCB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t vgcb_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void vgcb_rest(uint64_t ns)
{
    struct timespec rest = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&rest, NULL);
}

static inline void vgcb_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif
