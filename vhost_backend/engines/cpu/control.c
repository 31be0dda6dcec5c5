/* The control area: attaching it, kicks and confinement, snapshots. */
#define _GNU_SOURCE
#include "cpu_control.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- the area ----------------------------------------------------------------------------------------------- */

/* Reads the area's header, once; -EINVAL if it does not fit. */
static int read_layout(struct cpu_engine *engine, uint8_t *base, uint64_t size, struct vgc_ctl_place *place)
{
    struct vgc_ctl_area area = *(const struct vgc_ctl_area *)base;
    bool fits = area.magic == VGC_CTL_MAGIC && area.version == VGC_CTL_VERSION && area.size == size &&
                area.num_pes >= engine->base.num_pes && area.num_pes <= VGC_CTL_MAX_PES &&
                area.num_channels <= VGC_CTL_MAX_CHANNELS && area.pes % 64 == 0 && area.channels % 64 == 0 &&
                area.pes >= sizeof(area) && area.pes <= size && area.channels <= size &&
                area.num_pes * sizeof(struct vgc_ctl_pe) <= size - area.pes &&
                area.num_channels * sizeof(struct vgc_ctl_channel) <= size - area.channels;
    if (!fits)
        return -EINVAL;
    *place = (struct vgc_ctl_place){
        .base = base,
        .size = size,
        .channels = (struct vgc_ctl_channel *)(base + area.channels),
        .num_channels = area.num_channels,
        .num_pes = area.num_pes,
    };
    engine->rows = (struct vgc_ctl_pe *)(base + area.pes);
    return 0;
}

void cpu_control_join(struct cpu_pe *pe)
{
    struct cpu_engine *engine = pe->engine;
    uint32_t index = pe->ctx.pe;
    pe->unit.number = index;
    pe->unit.relax = cpu_relax;
    pe->unit.clock = engine->clock;
    pe->unit.place = engine->rows != NULL ? &engine->place : NULL;
    pe->unit.pe = engine->rows != NULL ? &engine->rows[index] : &pe->no_row;
    __atomic_store_n(&pe->unit.pe->firmware_version, engine->slots[pe->slot].version, __ATOMIC_RELAXED);
    __atomic_store_n(&pe->unit.pe->firmware_slot, pe->slot, __ATOMIC_RELAXED);
}

int cpu_control_attach(struct vgc_engine *base, int fd, uint8_t *host, uint64_t size, uint64_t *device)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    (void)host;
    if (engine->rows != NULL)
        return -EBUSY;
    if (size < sizeof(struct vgc_ctl_area))
        return -EINVAL;
    uint8_t *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (area == MAP_FAILED)
        return -errno;
    pthread_mutex_lock(&engine->lock);
    int error = read_layout(engine, area, size, &engine->place);
    if (error == 0) {
        cpu_clock_start(&engine->clock);
        for (uint32_t i = 0; i < engine->started_pes; i++)
            cpu_control_join(&engine->pes[i]);
        *device = (uint64_t)(uintptr_t)area;
    }
    pthread_mutex_unlock(&engine->lock);
    if (error != 0)
        munmap(area, size);
    return error;
}

void cpu_control_detach(struct cpu_engine *engine)
{
    if (engine->rows != NULL)
        munmap(engine->place.base, engine->place.size);
}

/* ---- kicks and confinement ---------------------------------------------------------------------------------- */

static bool is_to_rest(const struct cpu_engine *engine, uint32_t index)
{
    return (vgc_ctl_attention(&engine->pes[index].unit) & VGC_CTL_ATTEND_CONFINED) != 0;
}

/* Confines elements that are not offered, and those whose attention words say so: if no offered one were left then,
 * these words do not count, as launches must end. Lock held. */
static void read_confinement(struct cpu_engine *engine)
{
    uint32_t offered = engine->offered_pes != 0 ? engine->offered_pes : engine->started_pes;
    uint32_t left = 0;
    for (uint32_t i = 0; i < offered; i++)
        left += !is_to_rest(engine, i);
    engine->num_confined = engine->started_pes - (left != 0 ? left : offered);
    for (uint32_t i = 0; i < engine->started_pes; i++)
        atomic_store(&engine->pes[i].confined, i >= offered || (left != 0 && is_to_rest(engine, i)));
}

int cpu_offer_pes(struct vgc_engine *base, uint32_t count)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    int error = 0;
    pthread_mutex_lock(&engine->lock);
    if (count >= 1 && count <= engine->started_pes) {
        engine->offered_pes = count;
        read_confinement(engine);
        cpu_call_all(engine);
    } else {
        error = -EINVAL;
    }
    pthread_mutex_unlock(&engine->lock);
    return error;
}

void cpu_control_kick(struct vgc_engine *base)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    pthread_mutex_lock(&engine->lock);
    read_confinement(engine);
    engine->kicks++;
    cpu_call_all(engine);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- snapshots ---------------------------------------------------------------------------------------------- */

/* A PE's launch stays valid while the lock is held: the PE takes the lock before it leaves the launch. */
bool cpu_control_look(struct vgc_engine *base, uint32_t index, struct vgc_ctl_pe *state)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    bool found = false;
    pthread_mutex_lock(&engine->lock);
    if (index < engine->started_pes) {
        const struct cpu_pe *pe = &engine->pes[index];
        const struct cpu_launch *launch = atomic_load(&pe->launch);
        found = launch != NULL;
        state->kernel = found ? (uint64_t)(uintptr_t)launch->kernel->name : 0;
        state->launch = found ? launch->number : 0;
        state->block = found ? __atomic_load_n(&pe->unit.block, __ATOMIC_RELAXED) : 0;
        state->since_ns = found ? __atomic_load_n(&launch->op->start_ns, __ATOMIC_RELAXED) : 0;
        state->warps = found ? (launch->num_threads + VGC_CPU_WARP - 1) / VGC_CPU_WARP : 0;
    }
    pthread_mutex_unlock(&engine->lock);
    return found;
}
