/* Devices of the VM. All are shown, whatever $CUDA_VISIBLE_DEVICES says, in the order in which CUDA counts them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "errors.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned num_begun; /* calls of nvmlInit() without their nvmlShutdown() */
static unsigned num_devices;
static struct nvmlDevice_st devices[NV_MAX_DEVICES];

/* ---- finding -------------------------------------------------------------------------------- */

static void add_device(const char *address)
{
    struct nvmlDevice_st *device = &devices[num_devices];
    memset(device, 0, sizeof(*device));
    device->index = num_devices++;
    (void)snprintf(device->address, sizeof(device->address), "%.31s", address);
}

/* Devices that $VGC_MEMFD describes, with semicolons between them. */
static void find_described(const char *text)
{
    while (text != NULL && num_devices < NV_MAX_DEVICES) {
        add_device("");
        text = strchr(text, ';');
        text = text != NULL ? text + 1 : NULL;
    }
}

/* A machine without PCI has no devices. */
static void find_functions(void)
{
    struct vgc_found found[NV_MAX_DEVICES];
    size_t count = 0;
    if (vgc_list(found, NV_MAX_DEVICES, &count) != VGC_OK)
        return;
    for (size_t i = 0; i < count && num_devices < NV_MAX_DEVICES; i++)
        add_device(found[i].address);
}

static void find_devices(void)
{
    const char *described = getenv("VGC_MEMFD");
    num_devices = 0;
    if (described != NULL && described[0] != '\0')
        find_described(described);
    else
        find_functions();
}

/* ---- beginning and ending ------------------------------------------------------------------- */

static void lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* A child that is forked while another thread holds the mutex could never take it. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(lock, unlock, unlock);
}

nvmlReturn_t nv_begin(bool needs_device)
{
    nvmlReturn_t result = NVML_SUCCESS;
    lock();
    if (num_begun == 0)
        find_devices();
    if (needs_device && num_devices == 0)
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (result == NVML_SUCCESS)
        num_begun++;
    unlock();
    return result;
}

nvmlReturn_t nv_end(void)
{
    lock();
    nvmlReturn_t result = num_begun > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (result == NVML_SUCCESS)
        num_begun--;
    unlock();
    return result;
}

nvmlReturn_t nv_check(void)
{
    lock();
    nvmlReturn_t result = num_begun > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    unlock();
    return result;
}

nvmlReturn_t nv_check_device(const struct nvmlDevice_st *device)
{
    nvmlReturn_t result = nv_check();
    for (unsigned i = 0; result == NVML_SUCCESS && i < nv_count(); i++)
        if (device == &devices[i])
            return NVML_SUCCESS;
    return result == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : result;
}

unsigned nv_count(void)
{
    lock();
    unsigned count = num_devices;
    unlock();
    return count;
}

struct nvmlDevice_st *nv_device_at(unsigned index)
{
    return index < nv_count() ? &devices[index] : NULL;
}

/* ---- asking --------------------------------------------------------------------------------- */

static int ask(struct vgc_device *opened, struct nv_look *look)
{
    int result = vgc_info(opened, &look->info);
    if (result == VGC_OK)
        result = vgc_device_limits(opened, &look->limits);
    if (result == VGC_OK)
        result = vgc_device_usage(opened, &look->usage);
    if (result == VGC_OK)
        result = vgc_processes(opened, look->processes, NV_MAX_PROCESSES, &look->num_processes);
    return result;
}

nvmlReturn_t nv_look(const struct nvmlDevice_st *device, struct nv_look *look)
{
    struct vgc_options options;
    struct vgc_device *opened;
    vgc_options_init(&options);
    options.flags = VGC_OPEN_LOOK;
    options.address = device->address[0] != '\0' ? device->address : NULL;
    options.index = device->index;
    int result = vgc_open(&options, &opened);
    if (result == VGC_OK)
        result = ask(opened, look);
    nvmlReturn_t error = nv_result(result);
    vgc_close(opened);
    return error;
}

nvmlReturn_t nv_know(struct nvmlDevice_st *device)
{
    struct nv_look look;
    nvmlReturn_t result = nv_check_device(device);
    if (result != NVML_SUCCESS)
        return result;
    lock();
    bool is_known = device->is_known;
    unlock();
    if (is_known)
        return NVML_SUCCESS;
    result = nv_look(device, &look);
    if (result != NVML_SUCCESS)
        return result;
    lock();
    if (!device->is_known) { /* else another thread was faster, and a third may be reading */
        device->info = look.info;
        device->limits = look.limits;
        device->is_known = true;
    }
    unlock();
    return NVML_SUCCESS;
}
