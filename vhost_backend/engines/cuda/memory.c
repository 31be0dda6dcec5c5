/* Device memory: allocations, the pool that they come from (or mapped.c), and the VM's region.
 *
 * The pool is a memory pool of the driver, of the VM's size. It allocates, zeroes and frees in a stream (zero.c).
 * Users of memory are ordered behind its allocation by an event, and memory is freed when the data plane has seen the
 * end of all operations that used it. A pool does not tell which memory is new from the GPU, so each allocation is
 * zeroed. */
#include "cuda_engine.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

/* Size of the pool beyond the quota, as it takes memory from the GPU in larger blocks. */
enum { POOL_SLACK = 64 << 20 };

/* ---- the pool ----------------------------------------------------------------------------------------------- */

static drv_result make_pool(struct cuda_engine *engine)
{
    uint64_t keep_all = UINT64_MAX;
    struct drv_pool_props props = {
        .allocation_type = DRV_ALLOCATION_PINNED,
        .location_type = DRV_LOCATION_DEVICE,
        .location_id = engine->setup.device,
        .max_size = engine->setup.memory_bytes + POOL_SLACK,
    };
    drv_result error =
        engine->driver.cuMemPoolCreate(&engine->pool, (const struct CUmemPoolProps_st *)(const void *)&props);
    if (error != DRV_SUCCESS)
        return error;
    return engine->driver.cuMemPoolSetAttribute(engine->pool, DRV_POOL_RELEASE_THRESHOLD, &keep_all);
}

static int start_pool(struct cuda_engine *engine, char *why)
{
    size_t size = CUDA_LATE_FREES * sizeof(*engine->late_frees);
    void *table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        snprintf(why, VGC_CUDA_WHY, "out of memory for the tables of device memory");
        return -1;
    }
    engine->late_frees = table;
    drv_result error = make_pool(engine);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, "no memory pool can be made", error);
}

static drv_result free_now(struct cuda_engine *engine, drv_address address)
{
    drv_result error = engine->driver.cuMemFreeAsync(address, engine->alloc_stream);
    if (error == DRV_SUCCESS)
        cuda_zero_note(engine, 1);
    return error;
}

/* Frees what was late while the stream has room. */
static drv_result free_late(struct cuda_engine *engine)
{
    drv_result error = DRV_SUCCESS;
    while (error == DRV_SUCCESS && engine->num_late_frees != 0 && cuda_zero_has_room(engine))
        error = free_now(engine, engine->late_frees[--engine->num_late_frees]);
    return error;
}

static void close_pool(struct cuda_engine *engine)
{
    while (engine->num_late_frees != 0)
        free_now(engine, engine->late_frees[--engine->num_late_frees]);
    cuda_zero_finish(engine); /* memory is back in the pool then */
    if (engine->pool != NULL)
        engine->driver.cuMemPoolDestroy(engine->pool);
    if (engine->late_frees != NULL)
        munmap(engine->late_frees, CUDA_LATE_FREES * sizeof(*engine->late_frees));
    engine->late_frees = NULL;
    engine->pool = NULL;
}

/* Frees in the stream's order, or later if a kernel that does not end keeps the stream full. */
static drv_result give_to_pool(struct cuda_engine *engine, drv_address address)
{
    drv_result error = free_late(engine);
    if (error != DRV_SUCCESS)
        return error;
    if (engine->num_late_frees == CUDA_LATE_FREES || cuda_zero_has_room(engine))
        return free_now(engine, address);
    engine->late_frees[engine->num_late_frees++] = address;
    return DRV_SUCCESS;
}

static drv_result allocate(struct cuda_engine *engine, uint64_t size, drv_address *address)
{
    const struct cuda_driver *driver = &engine->driver;
    drv_result error = driver->cuMemAllocFromPoolAsync(address, size, engine->pool, engine->alloc_stream);
    if (error != DRV_ERROR_OUT_OF_MEMORY)
        return error;
    error = cuda_zero_await(engine); /* frees are behind fills */
    if (error == DRV_SUCCESS)
        error = free_late(engine);
    if (error == DRV_SUCCESS)
        error = cuda_zero_await(engine);
    if (error == DRV_SUCCESS)
        error = driver->cuMemPoolTrimTo(engine->pool, 0); /* free blocks may be too small */
    return error == DRV_SUCCESS ? driver->cuMemAllocFromPoolAsync(address, size, engine->pool, engine->alloc_stream)
                                : error;
}

static drv_result take_from_pool(struct cuda_engine *engine, uint64_t size, drv_address *address)
{
    drv_address found = 0;
    drv_result error = free_late(engine);
    if (error == DRV_SUCCESS)
        error = cuda_zero_make_room(engine);
    if (error == DRV_SUCCESS)
        error = allocate(engine, size, &found);
    if (error != DRV_SUCCESS)
        return error;
    cuda_zero_note(engine, 1);
    error = cuda_zero(engine, found, size);
    if (error == DRV_SUCCESS)
        error = cuda_zero_publish(engine);
    if (error == DRV_SUCCESS)
        *address = found;
    else
        give_to_pool(engine, found);
    return error;
}

static drv_result trim_pool(struct cuda_engine *engine)
{
    return engine->driver.cuMemPoolTrimTo(engine->pool, 0);
}

/* Bounds the pool to the rest of the quota. Its largest size is fixed, so this trims the memory that it holds now. */
static drv_result share_pool(struct cuda_engine *engine, uint64_t others)
{
    uint64_t quota = engine->setup.memory_bytes;
    if (others == 0)
        return DRV_SUCCESS;
    return engine->driver.cuMemPoolTrimTo(engine->pool, POOL_SLACK + (others < quota ? quota - others : 0));
}

static const struct cuda_memory POOL = {
    .start = start_pool,
    .close = close_pool,
    .take = take_from_pool,
    .give = give_to_pool,
    .trim = trim_pool,
    .share = share_pool,
};

/* ---- functions for the data plane --------------------------------------------------------------------------- */

int cuda_alloc(struct vgc_engine *base, uint64_t size, uint64_t *address)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    drv_address found = 0;
    drv_result error = engine->memory->take(engine, size, &found);
    cuda_check(engine, error);
    *address = found;
    return error == DRV_SUCCESS ? 0 : -ENOMEM;
}

int cuda_alloc_at(struct vgc_engine *base, uint64_t address, uint64_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    return engine->memory->take_at == NULL ? -EINVAL : engine->memory->take_at(engine, address, size);
}

int cuda_free(struct vgc_engine *base, uint64_t address, uint64_t size)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    (void)size;
    drv_result error = engine->memory->give(engine, address);
    cuda_check(engine, error);
    return error == DRV_SUCCESS ? 0 : -EINVAL;
}

/* ---- the VM's region ---------------------------------------------------------------------------------------- */

static void unregister(struct cuda_engine *engine)
{
    if (engine->region_address != 0)
        engine->driver.cuMemHostUnregister(engine->region);
    engine->region = NULL;
    engine->region_size = 0;
    engine->region_address = 0;
}

/* Registers the VM's region. If that fails, copies are slower and kernels cannot use the region in place. */
int cuda_map_region(struct vgc_engine *base, uint8_t *host, uint64_t size, uint64_t *address)
{
    struct cuda_engine *engine = cuda_engine_of(base);
    const struct cuda_driver *driver = &engine->driver;
    drv_address found = 0;
    unregister(engine);
    *address = 0;
    if (host == NULL)
        return 0;
    drv_result error =
        driver->cuMemHostRegister_v2(host, size, DRV_HOST_REGISTER_PORTABLE | DRV_HOST_REGISTER_DEVICE_MAP);
    cuda_check(engine, error);
    if (error != DRV_SUCCESS)
        return 0;
    error = driver->cuMemHostGetDevicePointer_v2(&found, host, 0);
    if (error != DRV_SUCCESS) {
        driver->cuMemHostUnregister(host);
        cuda_check(engine, error);
        return 0;
    }
    engine->region = host;
    engine->region_size = size;
    *address = engine->region_address = found;
    return 0;
}

bool cuda_is_registered(const struct cuda_engine *engine, const uint8_t *host, uint64_t len)
{
    uint64_t offset = (uint64_t)((uintptr_t)host - (uintptr_t)engine->region);
    return engine->region != NULL && host >= engine->region && offset <= engine->region_size &&
           len <= engine->region_size - offset;
}

uint8_t *cuda_host_of(const struct cuda_engine *engine, uint64_t address)
{
    uint64_t offset = address - engine->region_address;
    bool inside = engine->region_address != 0 && address >= engine->region_address && offset < engine->region_size;
    return inside ? engine->region + offset : NULL;
}

/* ---- start and end ------------------------------------------------------------------------------------------ */

int cuda_memory_start(struct cuda_engine *engine, char *why)
{
    engine->memory = engine->setup.memory_kind == VGC_CUDA_MAPPED ? &CUDA_MAPPED_MEMORY : &POOL;
    if (cuda_zero_start(engine, why) != 0 || engine->memory->start(engine, why) != 0)
        return -1;
    drv_result error = engine->memory->take(engine, CUDA_SCRATCH, &engine->scratch);
    return error == DRV_SUCCESS ? 0 : cuda_why(engine, why, "no device memory", error);
}

void cuda_memory_close(struct cuda_engine *engine)
{
    unregister(engine);
    if (engine->memory == NULL)
        return;
    if (engine->zeros != 0)
        engine->memory->give(engine, engine->zeros);
    if (engine->scratch != 0)
        engine->memory->give(engine, engine->scratch);
    engine->scratch = engine->zeros = 0;
    cuda_zero_finish(engine);
    engine->memory->close(engine);
    cuda_zero_close(engine);
    engine->memory = NULL;
}
