/* Devices of the VM: found once, opened when they are used, chosen by each thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime.h"

static pthread_once_t found_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rt_device devices[RT_MAX_DEVICES];
static struct vgc_found places[RT_MAX_DEVICES]; /* of devices[i]; "" for those of $VGC_MEMFD, where the next counts */
static uint32_t indices[RT_MAX_DEVICES];
static int num_devices;
static _Atomic int num_opened; /* devices that have been opened, ever */
static int find_result = VGC_OK;
static const char *hidden_by;  /* the variable that leaves none of the machine's devices, or NULL */
static _Atomic bool is_closed; /* the process ends, or this library is unloaded */
static _Thread_local int current;
_Thread_local bool rt_has_called;

/* ---- finding -------------------------------------------------------------------------------- */

/* Is `wanted` the device's index, or its PCI address, or the beginning of that? */
static bool is_named(const struct vgc_found *found, size_t index, const char *wanted, size_t len)
{
    char number[16];
    int digits = snprintf(number, sizeof(number), "%zu", index);
    if (len == (size_t)digits && memcmp(wanted, number, len) == 0)
        return true;
    return len > (size_t)digits && len >= 4 && strncmp(found->address, wanted, len) == 0;
}

/* The devices that $VGC_DEVICE or $CUDA_VISIBLE_DEVICES names, in its order; it ends at the first that does not exist,
 * as CUDA's does. */
static void choose_devices(const struct vgc_found *all, size_t count, const char *wanted)
{
    while (num_devices < RT_MAX_DEVICES && *wanted != '\0') {
        size_t len = strcspn(wanted, ",");
        size_t i = 0;
        while (i < count && !is_named(&all[i], i, wanted, len))
            i++;
        if (i == count)
            return;
        indices[num_devices] = (uint32_t)i;
        places[num_devices++] = all[i];
        wanted += len + (wanted[len] == ',');
    }
}

/* Devices that $VGC_MEMFD describes, with semicolons between them. */
static size_t count_described(const char *text)
{
    size_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == ';';
    return RT_MIN(count, (size_t)RT_MAX_DEVICES);
}

static void find_devices(void)
{
    struct vgc_found all[RT_MAX_DEVICES];
    size_t count = 0;
    const char *variable = getenv("VGC_DEVICE") != NULL ? "VGC_DEVICE" : "CUDA_VISIBLE_DEVICES";
    const char *wanted = getenv(variable);
    rt_look_for_others();
    if (getenv("VGC_MEMFD") != NULL) {
        memset(all, 0, sizeof(all));
        count = count_described(getenv("VGC_MEMFD"));
    } else {
        find_result = vgc_list(all, RT_MAX_DEVICES, &count);
        count = RT_MIN(count, (size_t)RT_MAX_DEVICES);
    }
    if (wanted != NULL) {
        choose_devices(all, count, wanted);
        hidden_by = count > 0 && num_devices == 0 ? variable : NULL;
    } else {
        memcpy(places, all, count * sizeof(places[0]));
        num_devices = (int)count;
        for (uint32_t i = 0; i < count; i++)
            indices[i] = i;
    }
    for (int i = 0; i < num_devices; i++) {
        devices[i].ordinal = i;
        (void)pthread_mutex_init(&devices[i].mutex, NULL);
        (void)pthread_mutex_init(&devices[i].settling, NULL);
    }
}

int rt_device_count(void)
{
    (void)pthread_once(&found_once, find_devices);
    return num_devices;
}

struct rt_device *rt_device_at(int ordinal)
{
    return ordinal >= 0 && ordinal < rt_device_count() ? &devices[ordinal] : NULL;
}

int rt_opened_devices(void)
{
    return atomic_load_explicit(&num_opened, memory_order_acquire) > 0 ? num_devices : 0;
}

int rt_ordinal(void)
{
    return current;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Threads are links of this folder, beside its own two. */
static bool is_only_thread(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
}

static void close_device(struct rt_device *place, bool may_free)
{
    struct vgc_device *device = atomic_load(&place->device);
    if (device == NULL)
        return;
    rt_marks_end(device);
    if (may_free)
        atomic_store(&place->device, NULL);
    (void)vgc_synchronize(device); /* what is put off behind functions of the host is not begun any more */
    atomic_store(&place->device, device);
    rt_print(place);
    if (may_free) {
        atomic_store(&place->device, NULL);
        vgc_close(device);
    } else {
        vgc_end(device);
    }
}

/* At the end of the process, behind the destructors of all that uses this library. Other threads may be in calls. */
__attribute__((destructor)) static void close_devices(void)
{
    if (rt_is_forked)
        return;
    atomic_store(&is_closed, true);
    bool is_alone = is_only_thread();
    for (int i = 0; i < num_devices; i++)
        close_device(&devices[i], is_alone);
}

int rt_open_handle(int ordinal, struct vgc_device **opened)
{
    struct vgc_options options;
    vgc_options_init(&options);
    if (places[ordinal].address[0] != '\0')
        options.address = places[ordinal].address;
    options.index = indices[ordinal];
    return vgc_open(&options, opened);
}

/* With open_mutex. */
static int open_device(struct rt_device *device)
{
    struct vgc_device *opened;
    int result = rt_open_handle(device->ordinal, &opened);
    if (result == VGC_OK)
        result = vgc_info(opened, &device->info);
    if (result == VGC_OK)
        result = vgc_device_limits(opened, &device->told);
    if (result != VGC_OK)
        return result;
    rt_watch_forks();
    atomic_store_explicit(&device->device, opened, memory_order_release);
    atomic_fetch_add(&num_opened, 1);
    return VGC_OK;
}

cudaError_t rt_sticky(struct rt_device *device)
{
    uint32_t contexts = device->contexts;
    cudaError_t error = atomic_load_explicit(&device->sticky, memory_order_relaxed);
    return error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? cudaSuccess : error;
}

void rt_note_loss_told(void)
{
    for (int i = 0; i < rt_opened_devices(); i++)
        atomic_store(&devices[i].has_told_loss, true);
}

static cudaError_t make_ready(struct rt_device *device)
{
    cudaError_t error = rt_sticky(device);
    if (error == cudaSuccess && atomic_load_explicit(&device->device, memory_order_acquire) != NULL)
        rt_managed_variables_place(device);
    if (error != cudaSuccess || atomic_load_explicit(&device->device, memory_order_acquire) != NULL)
        return error;
    (void)pthread_mutex_lock(&open_mutex);
    int result = atomic_load(&device->device) == NULL ? open_device(device) : VGC_OK;
    (void)pthread_mutex_unlock(&open_mutex);
    if (result != VGC_OK)
        (void)fprintf(stderr, "virtio-gpu-compute: %s\n", vgc_last_error());
    else
        rt_managed_variables_place(device);
    if (result == VGC_RESOURCES_EXHAUSTED)
        return rt_explain(cudaErrorDevicesUnavailable, "%s", vgc_last_error());
    return rt_error(result);
}

static cudaError_t no_device(void)
{
    const char *value = hidden_by != NULL ? getenv(hidden_by) : NULL;
    if (hidden_by == NULL)
        return rt_explain(cudaErrorNoDevice, "this machine has no virtio-gpu-compute device that may be used");
    return rt_explain(cudaErrorNoDevice, "%s is '%s', which names none of this machine's devices", hidden_by,
                      value != NULL ? value : "");
}

cudaError_t rt_device(int ordinal, struct rt_device **out)
{
    if (rt_is_forked)
        return rt_explain(cudaErrorInitializationError, "this process was forked from one that had used CUDA");
    if (atomic_load_explicit(&is_closed, memory_order_relaxed))
        return rt_explain(cudaErrorCudartUnloading, "the process is about to end");
    if (rt_is_called_back)
        return rt_explain(cudaErrorNotPermitted, "a function that a stream calls may not use CUDA");
    struct rt_device *device = rt_device_at(ordinal);
    *out = device;
    if (rt_device_count() == 0)
        return no_device();
    if (device == NULL)
        return rt_explain(cudaErrorInvalidDevice, "device %d; there are %d", ordinal, rt_device_count());
    return make_ready(device);
}

void rt_set_ordinal(int ordinal)
{
    current = ordinal;
}

cudaError_t rt_current(struct rt_device **device)
{
    rt_has_called = true;
    return rt_device(current, device);
}

/* ---- errors of work that nobody waited for ---------------------------------------------------- */

static bool is_sticky(cudaError_t error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress ||
           error == cudaErrorIllegalInstruction || error == cudaErrorLaunchFailure || error == cudaErrorLaunchTimeout ||
           error == cudaErrorAssert || error == cudaErrorDevicesUnavailable;
}

/* Makes an error sticky if none is; returns the one that is. */
static cudaError_t stick(struct rt_device *device, cudaError_t error)
{
    cudaError_t none = cudaSuccess;
    (void)atomic_compare_exchange_strong(&device->sticky, &none, error);
    return atomic_load(&device->sticky);
}

cudaError_t rt_fault(struct rt_device *device, cudaError_t error)
{
    if (!is_sticky(error))
        return error;
    if (error == cudaErrorDevicesUnavailable)
        (void)rt_settle(device); /* the kernel that is to blame may have been answered behind this call */
    return stick(device, error);
}

/* The kernel's words alone, as CUDA tells them: libvgc puts the name of its result before them. */
static void tell_assertion(const char *text)
{
    static const char NAME[] = "ASSERT: ";
    bool is_named = strncmp(text, NAME, sizeof(NAME) - 1) == 0;
    (void)fprintf(stderr, "%s\n", is_named ? text + sizeof(NAME) - 1 : text);
}

/* Error of the detached work that has ended, or of what was put off; it is nobody else's any more. */
static cudaError_t take_failure(struct rt_device *device)
{
    int result = vgc_detached_failure(atomic_load(&device->device));
    if (result == VGC_DEVICE_LOST) { /* the cause may have been answered behind that */
        int cause = vgc_detached_failure(atomic_load(&device->device));
        result = cause != VGC_OK ? cause : result;
    }
    cudaError_t late = atomic_load_explicit(&device->late, memory_order_relaxed) != cudaSuccess
                           ? atomic_exchange(&device->late, cudaSuccess)
                           : cudaSuccess;
    if (result == VGC_OK)
        return late;
    atomic_store(&device->has_lost_work, true);
    if (result == VGC_ASSERT)
        tell_assertion(vgc_last_error());
    return rt_error(result);
}

cudaError_t rt_settle(struct rt_device *device)
{
    /* A thread that only knows that the device is lost waits here for another that has the cause. */
    (void)pthread_mutex_lock(&device->settling);
    cudaError_t error = take_failure(device);
    if (error == cudaSuccess)
        error = atomic_load_explicit(&device->sticky, memory_order_relaxed);
    else if (is_sticky(error))
        error = stick(device, error);
    (void)pthread_mutex_unlock(&device->settling);
    return error;
}

void rt_print(struct rt_device *device)
{
    char text[4096];
    uint64_t len;
    uint64_t lost;
    struct vgc_device *opened = atomic_load(&device->device);
    bool printed = false;
    rt_marks_settle();
    while (vgc_output_waits(opened) && vgc_output_read(opened, text, sizeof(text), &len, &lost) == VGC_OK) {
        (void)fwrite(text, 1, len, stdout);
        printed = true;
        if (lost > 0)
            (void)fprintf(stderr, "virtio-gpu-compute: %llu bytes that kernels printed were lost\n",
                          (unsigned long long)lost);
    }
    if (printed)
        (void)fflush(stdout);
}

cudaError_t rt_synchronize(struct rt_device *device)
{
    rt_drain_device(device);
    uint32_t contexts = device->contexts;
    uint64_t stamp = atomic_load(&device->stamp);
    uint64_t mark = rt_mark();
    cudaError_t error = rt_error(vgc_synchronize(atomic_load(&device->device)));
    if (error == cudaSuccess && stamp > atomic_load(&device->done))
        atomic_store(&device->done, stamp); /* if two threads do this, the lesser may stay: it is true, too */
    cudaError_t earlier = rt_settle(device);
    rt_print(device);
    rt_pools_settle(device, RT_ALL_STREAMS, mark);
    rt_mirrors_settle(device);
    rt_managed_settle(device, RT_ALL_STREAMS, mark);
    error = earlier != cudaSuccess ? earlier : rt_fault(device, error);
    return error == cudaErrorDevicesUnavailable && rt_go_on(device, contexts) ? cudaSuccess : error;
}

/* ---- the API -------------------------------------------------------------------------------- */

RT_API cudaError_t cudaGetDeviceCount(int *count)
{
    if (count == NULL)
        return rt_return(cudaErrorInvalidValue);
    *count = rt_device_count();
    if (*count > 0)
        return rt_return(cudaSuccess);
    return rt_return(rt_error(find_result) == cudaSuccess ? no_device() : rt_error(find_result));
}

RT_API cudaError_t cudaGetDevice(int *device)
{
    if (device == NULL)
        return rt_return(cudaErrorInvalidValue);
    if (rt_device_count() == 0)
        return rt_return(no_device());
    *device = current;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaSetDevice(int device)
{
    if (rt_device_count() == 0)
        return rt_return(no_device());
    if (rt_device_at(device) == NULL)
        return rt_return(rt_explain(cudaErrorInvalidDevice, "device %d; there are %d", device, rt_device_count()));
    current = device;
    rt_driver_follow(device);
    struct rt_device *ready;
    return rt_return(rt_current(&ready));
}

RT_API cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    struct rt_device *ready;
    if (flags > cudaInitDeviceFlagsAreValid)
        return rt_return(cudaErrorInvalidValue);
    cudaError_t error = rt_device(device, &ready);
    if (error == cudaSuccess && flags != 0)
        ready->flags = device_flags;
    return rt_return(error);
}

RT_API cudaError_t cudaDeviceSynchronize(void)
{
    struct rt_device *device;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = rt_check_synchronize(device);
    return rt_return(error == cudaSuccess ? rt_synchronize(device) : error);
}

RT_API cudaError_t cudaThreadSynchronize(void)
{
    return cudaDeviceSynchronize();
}

/* Everything that the process made on the device is gone; a sticky error, too. */
RT_API cudaError_t cudaDeviceReset(void)
{
    struct rt_device *device = rt_device_at(current);
    if (device == NULL || rt_is_forked)
        return rt_return(cudaErrorNoDevice);
    struct vgc_device *opened = atomic_load(&device->device);
    if (opened == NULL)
        return rt_return(cudaSuccess);
    rt_drain_device(device);
    (void)vgc_synchronize(opened);
    (void)vgc_detached_failure(opened);
    atomic_store(&device->late, cudaSuccess);
    rt_print(device);
    int result = vgc_reset(opened);
    rt_programs_forget(device);
    rt_captures_forget(device);
    rt_streams_forget(device);
    rt_managed_variables_forget(device);
    rt_managed_forget(device);
    rt_pools_forget(device);
    rt_host_forget(device);
    rt_addresses_forget(device);
    device->epoch++;
    (void)atomic_fetch_add(&device->contexts, 1);
    atomic_store(&device->only_there, NULL);
    atomic_store(&device->has_lost_work, false);
    atomic_store(&device->has_told_loss, false);
    atomic_store(&device->sticky, cudaSuccess);
    if (result == VGC_OK)
        (void)vgc_info(opened, &device->info);
    (void)cudaGetLastError();
    return rt_return(rt_error(result));
}

RT_API cudaError_t cudaThreadExit(void)
{
    return cudaDeviceReset();
}
