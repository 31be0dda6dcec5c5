/* The processing element (PE) that control code runs on.
 *
 * The fields belong to the engine and are trusted; the memory they point to lies in the control area, which guest code
 * can write. Every address that is followed is therefore computed from `place`, or checked against it.
 */
#ifndef VGC_CONTROL_UNIT_H
#define VGC_CONTROL_UNIT_H

#include "platform.h"
#include "vgc_control.h"

/* Place of the control area, as given to the engine when it was attached. */
struct vgc_ctl_place {
    uint8_t *base; /* device address */
    uint64_t size;
    struct vgc_ctl_channel *channels;
    uint32_t num_channels;
    uint32_t num_pes;
    uint64_t urgent; /* device address of memory that outlives an error of the device, for links; 0: no such memory */
    uint64_t urgent_size;
};

/* Converts ticks of an invariant counter to ns of the engine's clock. Unused on CUDA, which has a global timer in ns.
 */
struct vgc_ctl_clock {
    uint64_t ticks; /* counter's value when the clock showed `ns` */
    uint64_t ns;
    uint64_t ns_per_tick;  /* fixed point, 32.32 bits; 0: no such counter, `now` is called */
    uint64_t (*now)(void); /* slower fallback */
};

struct vgc_ctl_unit {
    const struct vgc_ctl_place *place; /* NULL: no area is attached, so no channel is ever bound */
    struct vgc_ctl_pe *pe;             /* in the area */
    struct vgc_ctl_clock clock;
    /* the work that runs now */
    uint64_t kernel; /* key of the kernel: see vgc_ctl_pe.kernel */
    uint64_t launch;
    uint64_t block; /* linear index */
    uint32_t warp;  /* of the calling thread */
    uint32_t threads;
    uint32_t number; /* PE number */
    uint32_t reserved;
    /* waits end when *stop is not 0; may be NULL */
    const volatile uint8_t *stop;
    /* yields during a wait; `round`: number of earlier calls in this wait. May be NULL */
    void (*relax)(uint32_t round);
};

#if (defined(__CUDACC__) || defined(__CUDACC_RTC__)) && !defined(__VGC_CPU__)

VGC_CTL_FN uint64_t vgc_ctl_now(const struct vgc_ctl_unit *unit)
{
    uint64_t now;
    (void)unit;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

VGC_CTL_FN void vgc_ctl_relax(const struct vgc_ctl_unit *unit, uint32_t round)
{
    (void)unit;
    __nanosleep(round < 10 ? 100 : 1000);
}

#else

VGC_CTL_FN uint64_t vgc_ctl_now(const struct vgc_ctl_unit *unit)
{
    const struct vgc_ctl_clock *clock = &unit->clock;
    if (clock->ns_per_tick == 0)
        return clock->now();
    uint64_t since = __builtin_ia32_rdtsc() - clock->ticks;
    return clock->ns + (uint64_t)((unsigned __int128)since * clock->ns_per_tick >> 32);
}

VGC_CTL_FN void vgc_ctl_relax(const struct vgc_ctl_unit *unit, uint32_t round)
{
    if (unit->relax != 0)
        unit->relax(round);
}

#endif

VGC_CTL_FN bool vgc_ctl_is_stopped(const struct vgc_ctl_unit *unit)
{
    return unit->stop != 0 && *unit->stop != 0;
}

VGC_CTL_FN uint32_t vgc_ctl_attention(const struct vgc_ctl_unit *unit)
{
    return vgc_ctl_load32(&unit->pe->attention);
}

/* Pointer to [address, address + size), a device address, if it lies in the area or its urgent memory; NULL otherwise.
 */
VGC_CTL_FN uint8_t *vgc_ctl_inside(const struct vgc_ctl_place *place, uint64_t address, uint64_t size)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)place->base;
    uint64_t urgent = address - place->urgent;
    if ((address & 7) != 0)
        return 0;
    if (size <= place->size && offset <= place->size - size)
        return place->base + offset;
    if (size <= place->urgent_size && urgent <= place->urgent_size - size)
        return (uint8_t *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    return 0;
}

#endif
