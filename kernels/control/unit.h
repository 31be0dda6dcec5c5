/* A processing element as the control code on it sees itself.
 *
 * What is in here is the engine's own and believed; what it points to lies in the control area, which guest code can
 * write. So every address that is followed was computed from `place`, or checked against it.
 */
#ifndef VGC_CONTROL_UNIT_H
#define VGC_CONTROL_UNIT_H

#include "platform.h"
#include "vgc_control.h"

/* Where the area is, as the engine was told when it was attached. */
struct vgc_ctl_place {
    uint8_t *base; /* device address */
    uint64_t size;
    struct vgc_ctl_channel *channels;
    uint32_t num_channels;
    uint32_t num_pes;
    uint64_t urgent; /* device address of memory that outlives an error of the device, for links; 0: there is none */
    uint64_t urgent_size;
};

/* Ticks of a counter that runs steadily, as ns of the engine's clock. CUDA's global timer needs none of it. */
struct vgc_ctl_clock {
    uint64_t ticks; /* of the counter, when the clock showed `ns` */
    uint64_t ns;
    uint64_t ns_per_tick;  /* 32 bits before and 32 behind the point; 0: no such counter, ask `now` */
    uint64_t (*now)(void); /* slower */
};

struct vgc_ctl_unit {
    const struct vgc_ctl_place *place; /* NULL: no area is attached; nothing is ever bound then */
    struct vgc_ctl_pe *pe;             /* in the area */
    struct vgc_ctl_clock clock;
    /* what runs now */
    uint64_t kernel; /* the host's key of it */
    uint64_t launch;
    uint64_t block; /* linear index */
    uint32_t warp;  /* that the calling thread is in */
    uint32_t threads;
    uint32_t number; /* of the element */
    uint32_t reserved;
    /* who waits gives up when *stop is not 0; may be NULL */
    const volatile uint8_t *stop;
    /* lets others work; `round`: how often it was called in one wait. May be NULL */
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

/* The [address, address + size) at a device address of the area or its urgent memory; NULL if it is in neither. */
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
