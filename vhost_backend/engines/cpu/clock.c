/* Time stamps that cost little: the processor's counter, where it runs steadily, read as CLOCK_MONOTONIC. */
#include "control.h"

#include <cpuid.h>
#include <sched.h>
#include <time.h>

enum {
    CALIBRATE_NS = 1000000, /* for how long the counter is watched at first */
    REFINE_NS = 100000000,  /* and from when on the whole time since then is a better measure */
    ANCHOR_NS = 10000000,   /* an element's clock is set again when it is older than this */
    PAIR_TICKS = 4000,      /* a reading of both clocks that took longer was interrupted */
    RELAX_ROUNDS = 64,      /* of a wait, before it sleeps */
    RELAX_SLEEP_NS = 200000,
};

static bool has_steady_counter(void)
{
    enum { LEAF = 0x80000007, INVARIANT_TSC = 1 << 8 };
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(LEAF, &eax, &ebx, &ecx, &edx) != 0 && (edx & INVARIANT_TSC) != 0;
}

/* Both clocks at one moment. */
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
    if (!has_steady_counter())
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
