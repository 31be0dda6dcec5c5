/* Direct calls of the driver's API. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "gpu.h"

enum { CTX_SCHED_SPIN = 1, STREAM_NON_BLOCKING = 1 };              /* CU_CTX_SCHED_SPIN, CU_STREAM_NON_BLOCKING */
enum { HOST_REGISTER_PORTABLE = 1, HOST_REGISTER_DEVICE_MAP = 2 }; /* CU_MEMHOSTREGISTER_*; the worker's flags */
enum { UUID_BYTES = 16, UUID_TEXT = 37 };

/* Functions used, by the names that the library exports (cuda.h maps cuMemAlloc to cuMemAlloc_v2, and so on). */
struct driver {
    int (*cuInit)(unsigned flags);
    int (*cuGetErrorName)(int error, const char **name);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDeviceGetUuid_v2)(unsigned char *uuid, int device);
    int (*cuDevicePrimaryCtxSetFlags_v2)(int device, unsigned flags);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease_v2)(int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuStreamCreate)(void **stream, unsigned flags);
    int (*cuStreamDestroy_v2)(void *stream);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuModuleLoadData)(void **module, const void *image);
    int (*cuModuleUnload)(void *module);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuMemAlloc_v2)(uint64_t *address, size_t size);
    int (*cuMemFree_v2)(uint64_t address);
    int (*cuMemHostAlloc)(void **host, size_t size, unsigned flags);
    int (*cuMemFreeHost)(void *host);
    int (*cuMemHostRegister_v2)(void *host, size_t size, unsigned flags);
    int (*cuMemHostUnregister)(void *host);
    int (*cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t size, void *stream);
    int (*cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t size, void *stream);
    int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                          void **extra);
};

struct vgcb_gpu {
    struct driver cu;
    void *library;
    int device;
    void *context;
    void *stream;
    char why[VGCB_GPU_WHY];
};

/* Stores the result of dlsym through a pointer to the slot, because a function pointer is no object pointer. */
static int find(struct vgcb_gpu *gpu, const char *name, void *slot)
{
    *(void **)slot = dlsym(gpu->library, name);
    if (*(void **)slot == NULL) {
        snprintf(gpu->why, sizeof(gpu->why), "the driver has no %s", name);
        return -1;
    }
    return 0;
}

#define FIND(name) (find(gpu, #name, &gpu->cu.name) != 0)

static int find_all(struct vgcb_gpu *gpu)
{
    return FIND(cuInit) || FIND(cuGetErrorName) || FIND(cuDeviceGetCount) || FIND(cuDeviceGet) ||
                   FIND(cuDeviceGetUuid_v2) || FIND(cuDevicePrimaryCtxSetFlags_v2) || FIND(cuDevicePrimaryCtxRetain) ||
                   FIND(cuDevicePrimaryCtxRelease_v2) || FIND(cuCtxSetCurrent) || FIND(cuStreamCreate) ||
                   FIND(cuStreamDestroy_v2) || FIND(cuStreamSynchronize) || FIND(cuModuleLoadData) ||
                   FIND(cuModuleUnload) || FIND(cuModuleGetFunction) || FIND(cuMemAlloc_v2) || FIND(cuMemFree_v2) ||
                   FIND(cuMemHostAlloc) || FIND(cuMemFreeHost) || FIND(cuMemHostRegister_v2) ||
                   FIND(cuMemHostUnregister) || FIND(cuMemcpyHtoDAsync_v2) || FIND(cuMemcpyDtoHAsync_v2) ||
                   FIND(cuLaunchKernel)
               ? -1
               : 0;
}

static int check(struct vgcb_gpu *gpu, int result, const char *what)
{
    if (result == 0) {
        return 0;
    }
    const char *name = NULL;
    gpu->cu.cuGetErrorName(result, &name);
    snprintf(gpu->why, sizeof(gpu->why), "%s: %s (%d)", what, name != NULL ? name : "an unknown error", result);
    return -1;
}

#define CALL(function, ...) check(gpu, gpu->cu.function(__VA_ARGS__), #function)

/* Writes 16 bytes as "8f6e2a10-....", as nvidia-smi does behind "GPU-". */
static void write_uuid(char *text, const unsigned char *bytes)
{
    for (int i = 0; i < UUID_BYTES; i++) {
        bool hyphen = i == 4 || i == 6 || i == 8 || i == 10;
        text += snprintf(text, 4, hyphen ? "-%02x" : "%02x", bytes[i]);
    }
}

/* Finds a device by UUID: numbers depend on the environment and on the devices that the process may see. */
static int find_device(struct vgcb_gpu *gpu, const char *uuid)
{
    int count = 0;
    if (CALL(cuDeviceGetCount, &count) != 0) {
        return -1;
    }
    const char *wanted = strlen(uuid) >= UUID_TEXT - 1 ? uuid + strlen(uuid) - (UUID_TEXT - 1) : uuid;
    for (int i = 0; i < count; i++) {
        unsigned char bytes[UUID_BYTES];
        char text[UUID_TEXT];
        if (CALL(cuDeviceGet, &gpu->device, i) != 0 || CALL(cuDeviceGetUuid_v2, bytes, gpu->device) != 0) {
            return -1;
        }
        write_uuid(text, bytes);
        if (strcasecmp(text, wanted) == 0) {
            return 0;
        }
    }
    snprintf(gpu->why, sizeof(gpu->why), "%s is not among the %d devices that the driver shows", uuid, count);
    return -1;
}

static int take_context(struct vgcb_gpu *gpu, const char *uuid)
{
    if (CALL(cuInit, 0) != 0 || find_device(gpu, uuid) != 0 ||
        CALL(cuDevicePrimaryCtxSetFlags_v2, gpu->device, CTX_SCHED_SPIN) != 0 ||
        CALL(cuDevicePrimaryCtxRetain, &gpu->context, gpu->device) != 0) {
        return -1;
    }
    return CALL(cuCtxSetCurrent, gpu->context) != 0 || CALL(cuStreamCreate, &gpu->stream, STREAM_NON_BLOCKING) != 0 ? -1
                                                                                                                    : 0;
}

struct vgcb_gpu *vgcb_gpu_open(const char *driver, const char *uuid, char *why)
{
    struct vgcb_gpu *gpu = calloc(1, sizeof(*gpu));
    if (gpu == NULL) {
        snprintf(why, VGCB_GPU_WHY, "no memory");
        return NULL;
    }
    gpu->library = dlopen(driver, RTLD_NOW | RTLD_GLOBAL);
    if (gpu->library == NULL) {
        snprintf(gpu->why, sizeof(gpu->why), "%s", dlerror());
    }
    if (gpu->library == NULL || find_all(gpu) != 0 || take_context(gpu, uuid) != 0) {
        snprintf(why, VGCB_GPU_WHY, "%s", gpu->why);
        vgcb_gpu_close(gpu);
        return NULL;
    }
    return gpu;
}

void vgcb_gpu_close(struct vgcb_gpu *gpu)
{
    if (gpu->stream != NULL) {
        gpu->cu.cuStreamDestroy_v2(gpu->stream);
    }
    if (gpu->context != NULL) {
        gpu->cu.cuCtxSetCurrent(NULL);
        gpu->cu.cuDevicePrimaryCtxRelease_v2(gpu->device);
    }
    free(gpu); /* the library stays loaded: drivers run threads */
}

const char *vgcb_gpu_error(const struct vgcb_gpu *gpu)
{
    return gpu->why;
}

int vgcb_gpu_load(struct vgcb_gpu *gpu, const void *image, void **module)
{
    return CALL(cuModuleLoadData, module, image);
}

int vgcb_gpu_unload(struct vgcb_gpu *gpu, void *module)
{
    return CALL(cuModuleUnload, module);
}

int vgcb_gpu_function(struct vgcb_gpu *gpu, void *module, const char *name, void **function)
{
    return CALL(cuModuleGetFunction, function, module, name);
}

int vgcb_gpu_alloc(struct vgcb_gpu *gpu, uint64_t size, uint64_t *address)
{
    return CALL(cuMemAlloc_v2, address, size);
}

int vgcb_gpu_free(struct vgcb_gpu *gpu, uint64_t address)
{
    return CALL(cuMemFree_v2, address);
}

int vgcb_gpu_pinned(struct vgcb_gpu *gpu, uint64_t size, void **host)
{
    return CALL(cuMemHostAlloc, host, size, 0);
}

int vgcb_gpu_free_pinned(struct vgcb_gpu *gpu, void *host)
{
    return CALL(cuMemFreeHost, host);
}

int vgcb_gpu_register(struct vgcb_gpu *gpu, void *host, uint64_t size)
{
    return CALL(cuMemHostRegister_v2, host, size, HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICE_MAP);
}

int vgcb_gpu_unregister(struct vgcb_gpu *gpu, void *host)
{
    return CALL(cuMemHostUnregister, host);
}

static int issue(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *op)
{
    switch (op->kind) {
    case VGCB_GPU_COPY_IN:
        return CALL(cuMemcpyHtoDAsync_v2, op->device, op->host, op->size, gpu->stream);
    case VGCB_GPU_COPY_OUT:
        return CALL(cuMemcpyDtoHAsync_v2, op->host, op->device, op->size, gpu->stream);
    case VGCB_GPU_LAUNCH:
        return CALL(cuLaunchKernel, op->function, op->grid[0], op->grid[1], op->grid[2], op->block[0], op->block[1],
                    op->block[2], op->shared_bytes, gpu->stream, op->params, NULL);
    }
    return -1;
}

static int issue_all(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops)
{
    for (uint32_t i = 0; i < num_ops; i++) {
        if (issue(gpu, &ops[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int vgcb_gpu_round_trips(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint32_t count,
                         uint64_t *ns_out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = vgcb_now_ns();
        if (issue_all(gpu, ops, num_ops) != 0 || CALL(cuStreamSynchronize, gpu->stream) != 0) {
            return -1;
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
    return 0;
}

int vgcb_gpu_pipelined(struct vgcb_gpu *gpu, const struct vgcb_gpu_op *ops, uint32_t num_ops, uint64_t count,
                       uint64_t *ns_out)
{
    uint64_t start = vgcb_now_ns();
    for (uint64_t i = 0; i < count; i++) {
        if (issue_all(gpu, ops, num_ops) != 0) {
            return -1;
        }
    }
    if (CALL(cuStreamSynchronize, gpu->stream) != 0) {
        return -1;
    }
    *ns_out = vgcb_now_ns() - start;
    return 0;
}
