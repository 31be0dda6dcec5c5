/* Memory and events of other processes of the VM: cudaIpc*.
 *
 * A handle holds a key of the device's, by which another process opens the memory or event. Opened memory has the
 * address that it has everywhere, which must be free in this process, too. */
#include <string.h>

#include "runtime.h"

enum { EVENTS = 1 << 1 }; /* bit of device_features [docs/device.md] */

#define MEMORY_MAGIC UINT64_C(0x4d454d4350494756)
#define EVENT_MAGIC UINT64_C(0x544e564350494756)

struct handle {
    uint64_t magic;
    uint8_t uuid[16]; /* of the device */
    struct vgc_key key;
    uint64_t size; /* of the memory; 0: an event */
    uint8_t zeroes[16];
};

_Static_assert(sizeof(struct handle) == CUDA_IPC_HANDLE_SIZE, "struct handle");

/* One opens or closes memory at a time: the first to open it reserves its addresses, the last to close it gives them
 * back. Before it, nothing of the runtime's locks is taken. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool rt_is_sharing(const struct rt_device *device)
{
    return atomic_load(&device->sharing) > 0;
}

bool rt_has_shared_events(const struct rt_device *device)
{
    return (device->info.device_features & EVENTS) != 0;
}

/* ---- handles -------------------------------------------------------------------------------- */

static void fill(void *to, const struct rt_device *device, uint64_t magic, const struct vgc_key *key, uint64_t size)
{
    struct handle handle = {.magic = magic, .key = *key, .size = size};
    memcpy(handle.uuid, device->info.uuid, sizeof(handle.uuid));
    memcpy(to, &handle, sizeof(handle));
}

static cudaError_t read_handle(const void *from, const struct rt_device *device, uint64_t magic, struct handle *handle)
{
    const uint8_t zeroes[sizeof(handle->zeroes)] = {0};
    memcpy(handle, from, sizeof(*handle));
    bool is_event = magic == EVENT_MAGIC;
    if (handle->magic != magic || memcmp(handle->zeroes, zeroes, sizeof(zeroes)) != 0 ||
        is_event != (handle->size == 0))
        return rt_explain(cudaErrorInvalidValue, "this is no handle that cudaIpcGet%sHandle() has made",
                          is_event ? "Event" : "Mem");
    if (memcmp(handle->uuid, device->info.uuid, sizeof(handle->uuid)) != 0)
        return rt_explain(cudaErrorInvalidResourceHandle, "the handle is of another device than device %d",
                          device->ordinal);
    return cudaSuccess;
}

/* CUDA's error for the device's answer to an export or a key. */
static cudaError_t answer(struct rt_device *device, int result)
{
    cudaError_t error = rt_error(result);
    switch (result) {
    case VGC_NOT_FOUND:
        return cudaErrorInvalidResourceHandle;
    case VGC_INVALID_ARGUMENT:
        return cudaErrorDeviceUninitialized; /* this process's own */
    case VGC_RESOURCES_EXHAUSTED:
        return cudaErrorMemoryAllocation;
    default:
        return rt_fault(device, error);
    }
}

/* Until the end, kernels run on the device alone, and after it, while there is shared memory; those that were to run on
 * the CPU have ended. */
static cudaError_t begin_sharing(struct rt_device *device)
{
    (void)atomic_fetch_add(&device->sharing, 1);
    return atomic_load(&rt_num_either) > 0 ? rt_synchronize(device) : cudaSuccess;
}

static void end_sharing(struct rt_device *device)
{
    (void)atomic_fetch_sub(&device->sharing, 1);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* The allocation that a pointer lies in, if other processes may have it. */
static cudaError_t find_own(const void *memory, struct rt_range *range)
{
    bool found = memory != NULL && rt_find_range(memory, range);
    if (!found || range->kind != RT_DEVICE_MEMORY || range->opened > 0)
        return rt_explain(cudaErrorInvalidValue, "%p is not in memory of cudaMalloc() of this process", memory);
    if (range->owner != NULL || rt_is_graph_memory((const void *)(uintptr_t)range->begin))
        return rt_explain(cudaErrorInvalidValue, "%p is in memory of a pool or graph; allowed: memory of cudaMalloc()",
                          memory);
    if (range->is_spare)
        return rt_explain(cudaErrorNotSupported, "%p is in memory of the guest, in place of the device's", memory);
    return cudaSuccess;
}

static bool note_shared(struct rt_range *range, void *data)
{
    if (range->begin != *(const uint64_t *)data)
        return true;
    range->is_shared = true;
    return false;
}

static cudaError_t export_memory(const struct rt_range *range, struct vgc_key *key)
{
    uint64_t begin = range->begin;
    cudaError_t error = begin_sharing(range->device);
    if (error == cudaSuccess)
        (void)rt_visit_ranges(note_shared, &begin);
    end_sharing(range->device);
    if (error == cudaSuccess)
        error = rt_adopted_release(range->device); /* its bytes go to the device */
    if (error != cudaSuccess)
        return error;
    return answer(range->device, vgc_memory_export(atomic_load(&range->device->device), begin, key));
}

RT_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    struct rt_device *device;
    struct rt_range range;
    struct vgc_key key;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && handle == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = find_own(memory, &range);
    if (error == cudaSuccess)
        error = export_memory(&range, &key);
    if (error == cudaSuccess)
        fill(handle, range.device, MEMORY_MAGIC, &key, range.size);
    return rt_return(error);
}

struct change {
    uint64_t begin;
    int by;
};

static bool change_opened(struct rt_range *range, void *data)
{
    const struct change *change = data;
    if (range->begin != change->begin)
        return true;
    range->opened = (uint32_t)((int)range->opened + change->by);
    return false;
}

/* With the lock. Has the process opened the memory that begins at `begin`? */
static bool find_opened(uint64_t begin, struct rt_range *range)
{
    return rt_find_range((const void *)(uintptr_t)begin, range) && range->begin == begin && range->opened > 0;
}

/* With the lock. Memory that has been opened on the device becomes this process's. */
static cudaError_t add_opened(struct rt_device *device, uint64_t address, uint64_t size)
{
    struct rt_range range;
    struct change change = {address, 1};
    if (find_opened(address, &range)) {
        (void)rt_visit_ranges(change_opened, &change);
        return cudaSuccess;
    }
    range = (struct rt_range){.begin = address,
                              .size = size,
                              .kind = RT_DEVICE_MEMORY,
                              .device = device,
                              .is_shared = true,
                              .opened = 1,
                              .is_reserved = true};
    cudaError_t error = cudaSuccess;
    if (!rt_reserve(address, size))
        error = rt_explain(cudaErrorMapBufferObjectFailed, "something of this process lies at %#llx already",
                           (unsigned long long)address);
    else if (rt_add_range(&range) != cudaSuccess) {
        rt_release(address, size);
        error = cudaErrorMemoryAllocation;
    }
    if (error != cudaSuccess)
        (void)vgc_memory_close(atomic_load(&device->device), address);
    return error;
}

static cudaError_t open_memory(struct rt_device *device, const struct vgc_key *key, void **memory)
{
    uint64_t address;
    uint64_t size;
    cudaError_t error = begin_sharing(device);
    if (error == cudaSuccess)
        error = rt_adopted_release(device); /* the new memory may share pages with it */
    (void)pthread_mutex_lock(&lock);
    if (error == cudaSuccess)
        error = answer(device, vgc_memory_open(atomic_load(&device->device), key, &address, &size));
    if (error == cudaSuccess)
        error = add_opened(device, address, size);
    (void)pthread_mutex_unlock(&lock);
    end_sharing(device);
    if (error == cudaSuccess)
        *memory = (void *)(uintptr_t)address;
    return error;
}

RT_API cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t from, unsigned int flags)
{
    struct rt_device *device;
    struct handle handle;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && (memory == NULL || flags != cudaIpcMemLazyEnablePeerAccess))
        error = rt_explain(cudaErrorInvalidValue, "flags %#x; allowed: cudaIpcMemLazyEnablePeerAccess", flags);
    if (error == cudaSuccess)
        error = read_handle(&from, device, MEMORY_MAGIC, &handle);
    return rt_return(error == cudaSuccess ? open_memory(device, &handle.key, memory) : error);
}

/* With the lock. */
static cudaError_t close_memory(uint64_t begin)
{
    struct rt_range range;
    struct change change = {begin, -1};
    if (!find_opened(begin, &range))
        return rt_explain(cudaErrorInvalidValue, "no memory that cudaIpcOpenMemHandle() has opened begins at %#llx",
                          (unsigned long long)begin);
    if (range.opened > 1) {
        (void)rt_visit_ranges(change_opened, &change);
        return cudaSuccess;
    }
    cudaError_t error = rt_synchronize(range.device);
    if (error != cudaSuccess)
        return error;
    (void)rt_remove_range(begin, &range);
    rt_release(begin, range.size);
    return answer(range.device, vgc_memory_close(atomic_load(&range.device->device), begin));
}

RT_API cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return rt_return(error);
    (void)pthread_mutex_lock(&lock);
    error = close_memory((uint64_t)(uintptr_t)memory);
    (void)pthread_mutex_unlock(&lock);
    return rt_return(error);
}

/* ---- events --------------------------------------------------------------------------------- */

RT_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    struct vgc_key key;
    cudaError_t error = rt_check_event(event);
    if (error == cudaSuccess && handle == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && (event->flags & cudaEventInterprocess) == 0)
        error = rt_explain(cudaErrorInvalidResourceHandle,
                           "the event was not made with cudaEventInterprocess, or by another process");
    if (error != cudaSuccess)
        return rt_return(error);
    atomic_store(&event->device->only_there, "an event for other processes");
    (void)pthread_mutex_lock(&event->mutex);
    error = answer(event->device, vgc_event_export(event->event, &key));
    event->is_shared |= error == cudaSuccess;
    (void)pthread_mutex_unlock(&event->mutex);
    if (error == cudaSuccess)
        fill(handle, event->device, EVENT_MAGIC, &key, 0);
    return rt_return(error);
}

RT_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t from)
{
    struct rt_device *device;
    struct handle handle;
    struct vgc_event *opened;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && event == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = read_handle(&from, device, EVENT_MAGIC, &handle);
    if (error == cudaSuccess)
        error = answer(device, vgc_event_open(atomic_load(&device->device), &handle.key, &opened));
    if (error != cudaSuccess)
        return rt_return(error);
    atomic_store(&device->only_there, "an event of another process");
    error = rt_event_of(device, opened, cudaEventDisableTiming, event);
    if (error == cudaSuccess)
        (*event)->is_shared = true;
    else
        (void)vgc_event_destroy(opened);
    return rt_return(error);
}
