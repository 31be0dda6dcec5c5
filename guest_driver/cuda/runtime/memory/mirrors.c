/* Mirrors: how kernels see host memory that they cannot reach where it lies, as the program's own that is registered.
 *
 * A mirror is device memory, made when the program asks for the device address. Each launch takes along what the host
 * has changed, and each synchronisation brings back what kernels have. */
#include "mirrors.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_mirror *mirrors;
static _Atomic size_t num_mirrors;
static struct rt_mirror *shown; /* oldest first; empty without `vgc shadow` */
static uint64_t shown_launches; /* up to which they were shown */

void rt_mirror_show(struct rt_mirror *mirror)
{
    if (!rt_is_shadowed())
        return;
    (void)pthread_mutex_lock(&lock);
    struct rt_mirror **at = &shown;
    while (*at != NULL)
        at = &(*at)->next_shown;
    if (!mirror->is_shown)
        *at = mirror;
    mirror->is_shown = true;
    (void)pthread_mutex_unlock(&lock);
}

/* With the lock. */
static void end_showing(struct rt_mirror *mirror)
{
    for (struct rt_mirror **at = &shown; *at != NULL; at = &(*at)->next_shown) {
        if (*at == mirror) {
            *at = mirror->next_shown;
            return;
        }
    }
}

/* Shows `vgc shadow` what kernels may have written to without a copy. With the lock. */
static void show(const struct rt_device *device)
{
    if (!rt_is_shadowed() || (shown == NULL && mirrors == NULL) || !rt_shadow_is_due(&shown_launches))
        return;
    for (const struct rt_mirror *mirror = shown; mirror != NULL; mirror = mirror->next_shown)
        if (mirror->opened == atomic_load(&device->device))
            rt_shadow_copied(mirror->host, mirror->size);
    for (const struct rt_mirror *mirror = mirrors; mirror != NULL; mirror = mirror->next)
        if (mirror->device == device && mirror->in_use && !mirror->is_read_only)
            rt_shadow_copied(mirror->host, mirror->size);
}

/* With the lock. Host bytes that kernels have changed; what the program itself changes meanwhile stays. */
static void merge(struct rt_mirror *mirror)
{
    enum { STEP = 256 };
    for (size_t at = 0; at < mirror->size; at += STEP) {
        size_t length = RT_MIN((size_t)STEP, mirror->size - at);
        if (memcmp(mirror->buffer + at, mirror->snapshot + at, length) == 0)
            continue;
        for (size_t i = at; i < at + length; i++)
            if (mirror->buffer[i] != mirror->snapshot[i])
                mirror->host[i] = mirror->snapshot[i] = mirror->buffer[i];
    }
}

static cudaError_t bring_back(struct rt_mirror *mirror)
{
    if (!mirror->in_use || mirror->is_read_only)
        return cudaSuccess;
    int result =
        vgc_copy_out(atomic_load(&mirror->device->device), mirror->buffer, mirror->address, mirror->size, 0, NULL);
    if (result == VGC_OK)
        merge(mirror);
    return rt_error(result);
}

/* Sends all, if the host has changed anything. Kernels that may still write to the mirror are waited for. */
static cudaError_t send(struct rt_mirror *mirror, uint32_t stream)
{
    struct vgc_device *opened = atomic_load(&mirror->device->device);
    if (mirror->snapshot != NULL && memcmp(mirror->host, mirror->snapshot, mirror->size) == 0)
        return cudaSuccess;
    cudaError_t error = cudaSuccess;
    if (mirror->in_use) {
        error = rt_error(vgc_synchronize(opened));
        if (error == cudaSuccess)
            error = bring_back(mirror);
    }
    if (mirror->snapshot == NULL)
        mirror->snapshot = malloc(mirror->size);
    if (mirror->snapshot == NULL)
        return cudaErrorMemoryAllocation;
    if (error != cudaSuccess)
        return error;
    memcpy(mirror->snapshot, mirror->host, mirror->size);
    return rt_error(vgc_copy_in(opened, mirror->address, mirror->snapshot, mirror->size, stream, NULL));
}

cudaError_t rt_mirrors_enter(struct rt_device *device, uint32_t stream)
{
    cudaError_t error = cudaSuccess;
    if (atomic_load(&num_mirrors) == 0)
        return cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors; mirror != NULL && error == cudaSuccess; mirror = mirror->next) {
        if (mirror->device != device)
            continue;
        error = send(mirror, stream);
        mirror->in_use = true;
    }
    (void)pthread_mutex_unlock(&lock);
    return error;
}

bool rt_has_mirrors(void)
{
    return atomic_load(&num_mirrors) > 0;
}

void rt_mirrors_settle(struct rt_device *device)
{
    if (atomic_load(&num_mirrors) == 0 && !rt_is_shadowed())
        return;
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors; mirror != NULL; mirror = mirror->next)
        if (mirror->device == device)
            (void)bring_back(mirror);
    show(device);
    (void)pthread_mutex_unlock(&lock);
}

static cudaError_t make(struct rt_device *device, struct rt_mirror *mirror)
{
    void *memory;
    if (mirror->address != 0)
        return mirror->device == device
                   ? cudaSuccess
                   : rt_explain(cudaErrorNotSupported, "host memory %p is mapped by device %d already",
                                (void *)mirror->host, mirror->device->ordinal);
    mirror->buffer = malloc(mirror->size);
    if (mirror->buffer == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = rt_allocate(device, mirror->size, &memory);
    if (error != cudaSuccess) {
        free(mirror->buffer);
        mirror->buffer = NULL;
        rt_tell_no_fallback(error, "device pointers to registered memory");
        return error;
    }
    atomic_store(&device->only_there, "registered memory that kernels use");
    mirror->device = device;
    mirror->address = (uint64_t)(uintptr_t)memory;
    mirror->next = mirrors;
    mirrors = mirror;
    (void)atomic_fetch_add(&num_mirrors, 1);
    return cudaSuccess;
}

/* With the lock. */
static void end(struct rt_mirror *mirror)
{
    struct rt_range range;
    if (mirror->address == 0)
        return;
    for (struct rt_mirror **at = &mirrors; *at != NULL; at = &(*at)->next) {
        if (*at == mirror) {
            *at = mirror->next;
            (void)atomic_fetch_sub(&num_mirrors, 1);
            break;
        }
    }
    if (rt_remove_range(mirror->address, &range))
        (void)rt_free(&range);
    free(mirror->snapshot);
    free(mirror->buffer);
    mirror->snapshot = mirror->buffer = NULL;
    mirror->address = 0;
}

/* The mirrors' device memory is gone. */
void rt_host_forget(struct rt_device *device)
{
    (void)pthread_mutex_lock(&lock);
    for (struct rt_mirror *mirror = mirrors, *next; mirror != NULL; mirror = next) {
        next = mirror->next;
        if (mirror->device == device)
            end(mirror);
    }
    (void)pthread_mutex_unlock(&lock);
}

cudaError_t rt_mirror_make(struct rt_device *device, struct rt_mirror *mirror, uint64_t *address)
{
    (void)pthread_mutex_lock(&lock);
    cudaError_t error = make(device, mirror);
    *address = mirror->address;
    (void)pthread_mutex_unlock(&lock);
    return error;
}

void rt_mirror_end(struct rt_mirror *mirror)
{
    (void)pthread_mutex_lock(&lock);
    end_showing(mirror);
    end(mirror);
    (void)pthread_mutex_unlock(&lock);
}
