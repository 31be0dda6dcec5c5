/* Device memory at addresses chosen by the engine, so that a second worker of the VM, on another GPU, can have the same
 * memory at the same addresses. A pool cannot do that, as it chooses addresses itself.
 *
 * A range of addresses is reserved at the start, at the top of the VM's arena, and so large that its fragmentation does
 * not matter: addresses cost nothing. The host's mappings lie below it, as host and GPU share one address space.
 *
 * Physical memory, with that of programs, is bounded by the quota and MAPPED_SLACK. The slack is for allocations that
 * share granules unevenly: a VM that frees all but a few bytes of many granules may run out of memory before it has
 * used its quota, if these granules exceed the slack; other VMs are not affected. As allocations cannot be moved, no
 * allocator can both bound such a VM's memory and always serve it (Robson, 1974); the pool cannot either.
 *
 * Assumed, to be verified on hardware: physical memory and mappings belong to the process and its device, as
 * cuMemSetAccess takes only devices, so a green context sees them like any other context. */
#include "cuda_mapped.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAPPED_SLACK = 64 << 20,
    ROOM = 8,        /* size of the range, as a multiple of the memory */
    HOST_SHARE = 8,  /* divisor: this part of the arena is left to the host's mappings */
    STEP_SHARE = 16, /* divisor: this part of the arena is the step between tries */
    TRIES = 8,
};

#define LARGEST_QUOTA (UINT64_C(1) << 44)

static uint64_t round_up(uint64_t size, uint64_t to)
{
    return (size + to - 1) & ~(to - 1);
}

/* ---- the range ---------------------------------------------------------------------------------------------- */

static int find_granule(struct cuda_engine *engine, uint64_t *granule, char *why)
{
    struct drv_physical_props props = cuda_physical_props(engine);
    int supported = 0;
    size_t found = 0;
    drv_result error = engine->driver.cuDeviceGetAttribute(&supported, DRV_DEVICE_MAPS_MEMORY, engine->setup.device);
    if (error == DRV_SUCCESS && !supported)
        error = DRV_ERROR_NOT_SUPPORTED;
    if (error == DRV_SUCCESS)
        error = engine->driver.cuMemGetAllocationGranularity(
            &found, (const struct CUmemAllocationProp_st *)(const void *)&props, DRV_GRANULARITY_RECOMMENDED);
    if (error == DRV_SUCCESS && (found < CUDA_ALIGN || (found & (found - 1)) != 0))
        error = DRV_ERROR_NOT_SUPPORTED;
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "this GPU cannot map memory at chosen addresses; the option memory: pool works",
                        error);
    *granule = found;
    return 0;
}

/* Reserves the range at `wish`; *got is 0 if the driver would have placed it elsewhere, as `wish` is only a hint. */
static drv_result reserve_at(struct cuda_engine *engine, uint64_t size, uint64_t granule, drv_address wish,
                             drv_address *got)
{
    drv_address found = 0;
    drv_result error = engine->driver.cuMemAddressReserve(&found, size, granule, wish, 0);
    if (error != DRV_SUCCESS)
        return error;
    *got = found;
    if (wish == 0 || found == wish)
        return DRV_SUCCESS;
    *got = 0;
    return engine->driver.cuMemAddressFree(found, size);
}

/* Reserves the range from the top of the arena down; addresses below are left to the host. */
static drv_result reserve_in_arena(struct cuda_engine *engine, uint64_t size, uint64_t granule, drv_address *got)
{
    uint64_t lowest = engine->base.arena_base + engine->base.arena_size / HOST_SHARE;
    uint64_t top = (engine->base.arena_base + engine->base.arena_size - size) & ~(granule - 1);
    drv_result error = DRV_SUCCESS;
    *got = 0;
    for (uint64_t i = 0; i < TRIES && error == DRV_SUCCESS && *got == 0; i++) {
        uint64_t lower = i * round_up(engine->base.arena_size / STEP_SHARE, granule);
        if (lower > top - lowest)
            break;
        error = reserve_at(engine, size, granule, top - lower, got);
    }
    return error;
}

static int reserve(struct cuda_engine *engine, uint64_t size, uint64_t granule, drv_address *base, char *why)
{
    drv_result error;
    if (engine->mapped_base != 0)
        error = reserve_at(engine, size, granule, engine->mapped_base, base);
    else if (engine->base.arena_size != 0)
        error = reserve_in_arena(engine, size, granule, base);
    else
        error = reserve_at(engine, size, granule, 0, base);
    if (error != DRV_SUCCESS)
        return cuda_why(engine, why, "no addresses for device memory can be reserved", error);
    if (*base == 0) {
        drv_address first = engine->mapped_base != 0 ? engine->mapped_base : engine->base.arena_base;
        snprintf(why, VGC_CUDA_WHY,
                 "addresses for device memory are taken: %llu bytes cannot be reserved %s %#llx in this process",
                 (unsigned long long)size, engine->mapped_base != 0 ? "at" : "in the VM's range from", first);
        return -1;
    }
    if (*base > engine->base.arena_base && *base - engine->base.arena_base < engine->base.arena_size)
        engine->base.arena_size = *base - engine->base.arena_base;
    return 0;
}

/* Size of the range, at most half of the arena; the same in every worker of the VM. */
static uint64_t range_size(const struct cuda_engine *engine, uint64_t bound, uint64_t granule)
{
    uint64_t wanted = ROOM * bound;
    uint64_t most = engine->base.arena_size != 0 ? engine->base.arena_size / 2 : wanted;
    return (wanted < most ? wanted : most) & ~(granule - 1);
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

static int start_mapped(struct cuda_engine *engine, char *why)
{
    uint64_t granule = 0;
    drv_address base = 0;
    if (engine->setup.memory_bytes > LARGEST_QUOTA) {
        snprintf(why, VGC_CUDA_WHY, "a quota of %llu bytes; with memory: mapped at most %llu are allowed",
                 (unsigned long long)engine->setup.memory_bytes, (unsigned long long)LARGEST_QUOTA);
        return -1;
    }
    if (find_granule(engine, &granule, why) != 0)
        return -1;
    uint64_t bound = round_up(engine->setup.memory_bytes, granule) + round_up(MAPPED_SLACK, granule);
    uint64_t size = range_size(engine, bound, granule);
    struct cuda_mapped *mapped = engine->mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL || size < bound) {
        snprintf(why, VGC_CUDA_WHY, "out of memory, or too few addresses (%llu) for device memory",
                 (unsigned long long)size);
        return -1;
    }
    if (reserve(engine, size, granule, &base, why) != 0)
        return -1;
    mapped->size = size;
    mapped->spans.base = base;
    if (!cuda_spans_open(&mapped->spans, base, size, granule) ||
        !cuda_pieces_open(&mapped->pieces, base, size, granule)) {
        snprintf(why, VGC_CUDA_WHY, "out of memory for the tables of device memory");
        return -1;
    }
    mapped->bound = mapped->pieces.bound = bound / granule;
    mapped->pieces.keep = mapped->pieces.bound / 2;
    return 0;
}

static void close_mapped(struct cuda_engine *engine)
{
    struct cuda_mapped *mapped = engine->mapped;
    if (mapped == NULL)
        return;
    drv_address base = mapped->spans.base;
    for (uint32_t i = 0; i < mapped->spans.count; i++)
        cuda_pieces_leave(&mapped->pieces, mapped->spans.given[i].address, mapped->spans.given[i].size);
    cuda_pieces_close(engine, &mapped->pieces);
    cuda_spans_close(&mapped->spans);
    if (mapped->size != 0)
        engine->driver.cuMemAddressFree(base, mapped->size);
    free(mapped);
    engine->mapped = NULL;
}

void vgc_cuda_engine_set_base(struct vgc_engine *base, uint64_t address)
{
    cuda_engine_of(base)->mapped_base = address;
}

uint64_t vgc_cuda_engine_base(const struct vgc_engine *base, uint64_t *size)
{
    const struct cuda_mapped *mapped = ((const struct cuda_engine *)base)->mapped;
    *size = mapped == NULL ? 0 : mapped->size;
    return mapped == NULL ? 0 : mapped->spans.base;
}

/* ---- allocations -------------------------------------------------------------------------------------------- */

static drv_result take_mapped(struct cuda_engine *engine, uint64_t size, drv_address *address)
{
    struct cuda_mapped *mapped = engine->mapped;
    if (size == 0)
        return DRV_ERROR_INVALID_VALUE;
    if (size > mapped->size)
        return DRV_ERROR_OUT_OF_MEMORY;
    size = round_up(size, CUDA_ALIGN);
    uint64_t found = cuda_spans_take(&mapped->spans, size);
    if (found == 0)
        return DRV_ERROR_OUT_OF_MEMORY;
    drv_result error = cuda_pieces_use(engine, &mapped->pieces, found, size);
    if (error != DRV_SUCCESS)
        cuda_spans_give(&mapped->spans, found);
    else
        *address = found;
    return error;
}

static int take_mapped_at(struct cuda_engine *engine, drv_address address, uint64_t size)
{
    struct cuda_mapped *mapped = engine->mapped;
    if (size > mapped->size)
        return -EINVAL;
    size = round_up(size, CUDA_ALIGN);
    int error = cuda_spans_take_at(&mapped->spans, address, size);
    if (error != 0)
        return error;
    drv_result result = cuda_pieces_use(engine, &mapped->pieces, address, size);
    if (result == DRV_SUCCESS)
        return 0;
    cuda_spans_give(&mapped->spans, address);
    cuda_check(engine, result);
    return -ENOMEM;
}

/* Frees a span. Kept pieces are trimmed only while nothing runs, as the driver may wait for running work. Fills are
 * waited for: they end soon then, and have ended if the memory was used. */
static drv_result give_mapped(struct cuda_engine *engine, drv_address address)
{
    struct cuda_mapped *mapped = engine->mapped;
    uint64_t size = cuda_spans_give(&mapped->spans, address);
    if (size == 0)
        return DRV_ERROR_INVALID_VALUE;
    cuda_pieces_leave(&mapped->pieces, address, size);
    if (engine->commands != 0)
        return DRV_SUCCESS;
    drv_result error = cuda_pieces_trim(engine, &mapped->pieces);
    return error == DRV_ERROR_NOT_READY ? DRV_SUCCESS : error;
}

static drv_result trim_mapped(struct cuda_engine *engine)
{
    return cuda_pieces_drop_kept(engine, &engine->mapped->pieces);
}

static drv_result share_mapped(struct cuda_engine *engine, uint64_t others)
{
    struct cuda_mapped *mapped = engine->mapped;
    uint64_t theirs = round_up(others, mapped->pieces.granule) / mapped->pieces.granule;
    return cuda_pieces_bind(engine, &mapped->pieces, theirs < mapped->bound ? mapped->bound - theirs : 0);
}

const struct cuda_memory CUDA_MAPPED_MEMORY = {
    .start = start_mapped,
    .close = close_mapped,
    .take = take_mapped,
    .give = give_mapped,
    .take_at = take_mapped_at,
    .trim = trim_mapped,
    .share = share_mapped,
};
