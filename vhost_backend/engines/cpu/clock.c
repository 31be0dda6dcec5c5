/* Cheap time stamps: the processor's time stamp counter, where that is invariant, converted to CLOCK_MONOTONIC. */
#include "cpu_control.h"

#include <cpuid.h>
#include <sched.h>
#include <time.h>

enum {
    CALIBRATE_NS = 1000000, /* length of the first measurement of the counter */
    REFINE_NS = 100000000,  /* after this time, calibrates over the whole interval since the start */
    ANCHOR_NS = 10000000,   /* age at which an element's anchor is renewed: the pair of ticks and ns it counts from */
    PAIR_TICKS = 4000,      /* a reading of both clocks that takes longer was interrupted: tries again */
    RELAX_ROUNDS = 64,      /* rounds of a wait before it sleeps */
    RELAX_SLEEP_NS = 200000,
};

uint64_t cpu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool has_invariant_counter(void)
{
    enum { LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(LEAF, &eax, &ebx, &ecx, &edx) != 0 && (edx & INVARIANT_TSC) != 0;
}

/* Reads both clocks at the same time. */
static void read_both(struct vgc_ctl_clock *clock)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t before = __builtin_ia32_rdtsc();
        clock->ns = cpu_now_ns();
        uint64_t after = __builtin_ia32_rdtsc();
        clock->ticks = before + (after - before) / 2;
        if (after - before < PAIR_TICKS)
            return;
    }
}

static uint64_t scale_between(const struct vgc_ctl_clock *from, const struct vgc_ctl_clock *to)
{
    return (uint64_t)(((unsigned __int128)(to->ns - from->ns) << 32) / (to->ticks - from->ticks));
}

void cpu_clock_start(struct vgc_ctl_clock *clock)
{
    *clock = (struct vgc_ctl_clock){.now = cpu_now_ns};
    if (!has_invariant_counter())
        return;
    struct vgc_ctl_clock later;
    read_both(clock);
    do
        read_both(&later);
    while (later.ns - clock->ns < CALIBRATE_NS || later.ticks == clock->ticks);
    clock->ns_per_tick = scale_between(clock, &later);
}

void cpu_clock_anchor(struct vgc_ctl_unit *unit, const struct vgc_ctl_clock *first)
{
    struct vgc_ctl_clock *clock = &unit->clock;
    if (clock->ns_per_tick == 0 || vgc_ctl_now(unit) - clock->ns < ANCHOR_NS)
        return;
    read_both(clock);
    if (clock->ns - first->ns > REFINE_NS)
        clock->ns_per_tick = scale_between(first, clock);
}

void cpu_relax(uint32_t round)
{
    if (round < RELAX_ROUNDS) {
        __builtin_ia32_pause();
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = RELAX_SLEEP_NS}, NULL);
    }
}
