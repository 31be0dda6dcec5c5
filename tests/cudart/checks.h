/* For programs in C that test libcudart: checks, and kernels of a source text, registered as mynvcc's objects do. */
#ifndef VGC_CUDART_CHECKS_H
#define VGC_CUDART_CHECKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "condition.h"
#include "cuda_runtime_api.h"

/* The call ends with this error. */
#define ENDS(expected, call)                                                                                           \
    do {                                                                                                               \
        cudaError_t ended = (call);                                                                                    \
        if (ended != (expected)) {                                                                                     \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, cudaGetErrorName(ended), #call);                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call) ENDS(cudaSuccess, call)

void **__cudaRegisterFatBinary(const struct vgc_cuda_wrapper *wrapper);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                            void *thread, void *block, void *block_size, void *grid_size, int *warp_size);
void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int normalised, int is_extern);
void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int is_extern);

/* Registers a source text, for as long as the process lives. */
static inline void **register_source(const char *text)
{
    struct vgc_cuda_blob *blob = calloc(1, sizeof(*blob) + 4 + strlen(text));
    struct vgc_cuda_wrapper *wrapper = calloc(1, sizeof(*wrapper));
    memcpy(blob->magic, VGC_CUDA_BLOB_MAGIC, sizeof(blob->magic));
    blob->name_len = 4;
    blob->text_len = strlen(text);
    memcpy(blob + 1, "t.cu", 4);
    memcpy((char *)(blob + 1) + 4, text, strlen(text));
    *wrapper = (struct vgc_cuda_wrapper){VGC_CUDA_WRAPPER_MAGIC, 1, blob, NULL};
    return __cudaRegisterFatBinary(wrapper);
}

/* Any address stands for a kernel. */
static inline void register_kernel(void **handle, const void *stub, const char *name)
{
    __cudaRegisterFunction(handle, stub, (char *)(uintptr_t)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static inline cudaError_t launch(const void *stub, unsigned threads, void **arguments)
{
    dim3 grid = {1, 1, 1};
    dim3 block = {threads, 1, 1};
    return cudaLaunchKernel(stub, grid, block, arguments, 0, NULL);
}

#endif
