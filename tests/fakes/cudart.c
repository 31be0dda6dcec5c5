/* A CUDA runtime that computes nothing: checks and prints what a program that mynvcc compiled registers and launches.
 * Tests link it in the place of libcudart. */
#include "blob.h"
#include "cuda_runtime_api.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wrapper {
    int magic, version;
    const struct vgc_cuda_blob *data;
    void *unused;
};

static struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} configured;

static struct kernel {
    const void *stub;
    const char *name;
} kernels[64];
static unsigned kernel_count;

static void refuse(const char *what)
{
    fprintf(stderr, "fake cudart: %s\n", what);
    exit(99);
}

void **__cudaRegisterFatBinary(const struct wrapper *wrapper)
{
    const struct vgc_cuda_blob *blob = wrapper->data;
    if (wrapper->magic != 0x466243b1 || wrapper->version != 1 || (uintptr_t)blob % 8 != 0)
        refuse("no wrapper of a fat binary");
    if (memcmp(blob->magic, VGC_CUDA_BLOB_MAGIC, sizeof(blob->magic)) != 0)
        refuse("no blob");
    const char *name = (const char *)(blob + 1), *options = name + blob->name_len, *text = options + blob->options_len;
    printf("unit %.*s flags %u text %llu\n", (int)blob->name_len, name, blob->flags,
           (unsigned long long)blob->text_len);
    for (const char *at = options; at < text; at += strlen(at) + 1)
        printf("option %s\n", at);
    const char *path = getenv("FAKE_CUDART_TEXT");
    if (path != NULL) {
        FILE *file = fopen(path, "a");
        if (file == NULL || fwrite(text, 1, blob->text_len, file) != blob->text_len || fclose(file) != 0)
            refuse("cannot write the text");
    }
    return (void **)wrapper;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const void *stub, char *host_name, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp)
{
    (void)handle, (void)host_name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    if (kernel_count == sizeof(kernels) / sizeof(*kernels))
        refuse("too many kernels");
    kernels[kernel_count++] = (struct kernel){stub, name};
    printf("kernel %s\n", name);
}

void __cudaRegisterVar(void **handle, char *variable, char *host_name, const char *name, int is_extern, size_t bytes,
                       int is_constant, int is_global)
{
    (void)handle, (void)variable, (void)host_name, (void)is_global;
    printf("variable %s %zu%s%s\n", name, bytes, is_constant ? " constant" : "", is_extern ? " extern" : "");
}

void __cudaRegisterTexture(void **handle, const void *variable, const void **address, const char *name, int dimensions,
                           int is_normalised, int is_extern)
{
    (void)handle, (void)variable, (void)address, (void)is_normalised, (void)is_extern;
    printf("texture %s %d\n", name, dimensions);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    configured.grid = grid, configured.block = block, configured.shared = shared, configured.stream = stream;
    return 0;
}

unsigned __cudaPushCallConfiguration_ptsz(dim3 grid, dim3 block, size_t shared, void *stream)
{
    return __cudaPushCallConfiguration(grid, block, shared, stream);
}

int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream)
{
    *grid = configured.grid, *block = configured.block, *shared = configured.shared, *stream = configured.stream;
    return 0;
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream)
{
    (void)stream;
    for (unsigned i = 0; i < kernel_count; i++)
        if (kernels[i].stub == stub) {
            printf("launch %s grid %u %u %u block %u %u %u shared %zu first %d\n", kernels[i].name, grid.x, grid.y,
                   grid.z, block.x, block.y, block.z, shared, *(int *)arguments[0]);
            return 0;
        }
    refuse("a launch of what is not registered");
    return cudaErrorInvalidDeviceFunction;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return *memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return 0;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind)
{
    (void)symbol, (void)from;
    printf("to symbol %zu at %zu kind %d\n", bytes, offset, kind);
    return 0;
}

/* ---- a device of 4 multiprocessors, 1536 threads on each, of whose kernels at most 20 blocks of 512 threads run ----
 */

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrMaxThreadsPerMultiProcessor ? 1536
             : attribute == cudaDevAttrMaxThreadsPerBlock        ? 1024
             : attribute == cudaDevAttrMultiProcessorCount       ? 4
             : attribute == cudaDevAttrWarpSize                  ? 32
                                                                 : 0;
    return 0;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *stub)
{
    (void)stub;
    memset(attributes, 0, sizeof(*attributes));
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    memset(properties, 0, sizeof(*properties));
    properties->major = 8;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *stub, int block,
                                                                   size_t shared, unsigned flags)
{
    (void)stub, (void)flags;
    *blocks = (int)((1536 / block) / (1 + shared / 1024));
    return 0;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == 0 ? "no error" : "an error";
}

cudaError_t cudaGetLastError(void)
{
    return 0;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return 0;
}
