/* The driver's own API, called as directly as can be. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "gpu.h"

enum { CTX_SCHED_SPIN = 1, STREAM_NON_BLOCKING = 1 }; /* CU_CTX_SCHED_SPIN, CU_STREAM_NON_BLOCKING */

/* The functions used, by the names that the library exports (cuda.h maps cuMemAlloc to cuMemAlloc_v2, and so on). */
struct driver {
    int (*cuInit)(unsigned flags);
    int (*cuGetErrorName)(int error, const char **name);
    int (*cuDeviceGet)(int *device, int ordinal);
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

/* Stores what dlsym finds; a function pointer is no object pointer, hence the detour. */
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
    return FIND(cuInit) || FIND(cuGetErrorName) || FIND(cuDeviceGet) || FIND(cuDevicePrimaryCtxSetFlags_v2) ||
                   FIND(cuDevicePrimaryCtxRetain) || FIND(cuDevicePrimaryCtxRelease_v2) || FIND(cuCtxSetCurrent) ||
                   FIND(cuStreamCreate) || FIND(cuStreamDestroy_v2) || FIND(cuStreamSynchronize) ||
                   FIND(cuModuleLoadData) || FIND(cuModuleUnload) || FIND(cuModuleGetFunction) || FIND(cuMemAlloc_v2) ||
                   FIND(cuMemFree_v2) || FIND(cuMemHostAlloc) || FIND(cuMemFreeHost) || FIND(cuMemcpyHtoDAsync_v2) ||
                   FIND(cuMemcpyDtoHAsync_v2) || FIND(cuLaunchKernel)
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

static int take_context(struct vgcb_gpu *gpu, uint32_t ordinal)
{
    if (CALL(cuInit, 0) != 0 || CALL(cuDeviceGet, &gpu->device, (int)ordinal) != 0 ||
        CALL(cuDevicePrimaryCtxSetFlags_v2, gpu->device, CTX_SCHED_SPIN) != 0 ||
        CALL(cuDevicePrimaryCtxRetain, &gpu->context, gpu->device) != 0) {
        return -1;
    }
    return CALL(cuCtxSetCurrent, gpu->context) != 0 || CALL(cuStreamCreate, &gpu->stream, STREAM_NON_BLOCKING) != 0 ? -1
                                                                                                                    : 0;
}

struct vgcb_gpu *vgcb_gpu_open(const char *driver, uint32_t ordinal, char *why)
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
    if (gpu->library == NULL || find_all(gpu) != 0 || take_context(gpu, ordinal) != 0) {
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
    free(gpu); /* the library stays: drivers have threads of their own */
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
