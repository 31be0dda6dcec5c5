/* Errors of CUDA's that arrays, textures and copies end with when they are misused. */
#include "checks.h"

static const struct cudaChannelFormatDesc FLOATS = {32, 0, 0, 0, cudaChannelFormatKindFloat};
static const struct cudaChannelFormatDesc INTS = {32, 0, 0, 0, cudaChannelFormatKindSigned};

static void arrays(void)
{
    static const struct cudaChannelFormatDesc WRONG[] = {
        {0, 0, 0, 0, cudaChannelFormatKindFloat},   {8, 8, 8, 0, cudaChannelFormatKindUnsigned},
        {8, 16, 0, 0, cudaChannelFormatKindSigned}, {64, 0, 0, 0, cudaChannelFormatKindFloat},
        {8, 0, 0, 0, cudaChannelFormatKindFloat},   {32, 0, 0, 0, cudaChannelFormatKindNone},
        {8, 0, 8, 0, cudaChannelFormatKindSigned},
    };
    cudaArray_t array = NULL;
    cudaArray_t plane;
    struct cudaExtent extent;
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++)
        ENDS(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &WRONG[i], 4, 4, 0));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(NULL, &FLOATS, 4, 4, 0));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(&array, NULL, 4, 4, 0));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(&array, &FLOATS, 0, 0, 0));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(&array, &FLOATS, 1u << 30, 1, 0));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(&array, &FLOATS, 4, 4, cudaArrayLayered));
    ENDS(cudaErrorInvalidValue, cudaMallocArray(&array, &FLOATS, 4, 4, 0x10));
    ENDS(cudaErrorNotSupported, cudaMallocArray(&array, &FLOATS, 4, 4, cudaArraySparse));
    ENDS(cudaErrorInvalidValue, cudaMalloc3DArray(&array, &FLOATS, (struct cudaExtent){4, 0, 4}, 0));
    ENDS(cudaErrorInvalidValue, cudaMalloc3DArray(&array, &FLOATS, (struct cudaExtent){4, 5, 6}, cudaArrayCubemap));
    ENDS(cudaErrorMemoryAllocation, cudaMallocArray(&array, &FLOATS, 65536, 65536, 0));
    OK(cudaMallocArray(&array, &FLOATS, 4, 4, 0));
    ENDS(cudaErrorNotSupported, cudaArrayGetPlane(&plane, array, 0));
    OK(cudaFreeArray(array));
    OK(cudaFreeArray(NULL));
    ENDS(cudaErrorInvalidValue, cudaFreeArray(array));
    ENDS(cudaErrorInvalidResourceHandle, cudaArrayGetInfo(NULL, &extent, NULL, array));
    ENDS(cudaErrorInvalidResourceHandle, cudaMemcpyToArray(array, 0, 0, &extent, 4, cudaMemcpyHostToDevice));
    ENDS(cudaErrorInvalidResourceHandle, cudaMemcpyToArray(NULL, 0, 0, &extent, 4, cudaMemcpyHostToDevice));
    ENDS(cudaErrorInvalidResourceHandle, cudaGetLastError());
    OK(cudaGetLastError());
}

static void mipmaps(void)
{
    cudaMipmappedArray_t mipmap;
    cudaArray_t level;
    OK(cudaMallocMipmappedArray(&mipmap, &FLOATS, (struct cudaExtent){8, 8, 0}, 2, 0));
    OK(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
    ENDS(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&level, mipmap, 2));
    ENDS(cudaErrorInvalidValue, cudaFreeArray(level));
    OK(cudaFreeMipmappedArray(mipmap));
    ENDS(cudaErrorInvalidResourceHandle, cudaGetMipmappedArrayLevel(&level, mipmap, 0));
    ENDS(cudaErrorInvalidResourceHandle, cudaArrayGetInfo(NULL, NULL, NULL, level));
}

static void rows(void)
{
    static char host[4096];
    char *device;
    cudaArray_t array;
    OK(cudaMalloc((void **)&device, 4096));
    OK(cudaMallocArray(&array, &FLOATS, 16, 4, 0));
    const enum cudaMemcpyKind in = cudaMemcpyHostToDevice;
    ENDS(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, 63, host, 64, 64, 4, in));
    ENDS(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, 64, host, 63, 64, 4, in));
    ENDS(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, (size_t)1 << 32, host, 64, 64, 2, in));
    ENDS(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(device, 64, host, 64, 64, 4, (enum cudaMemcpyKind)5));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2D(host, 64, device, 64, 63, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2D(NULL, 64, host, 64, 63, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2D(device, 128, host, 64, 64, 33, in)); /* beyond the allocation */
    OK(cudaMemcpy2D(device, 128, host, 64, 64, 32, in));
    OK(cudaMemcpy2D(device, 0, host, 0, 0, 32, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2DToArray(array, 4, 0, host, 64, 64, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2DToArray(array, 0, 1, host, 64, 64, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpy2DFromArray(host, 64, array, (size_t)-4, 0, 64, 4, cudaMemcpyDeviceToHost));
    ENDS(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DToArray(array, 0, 0, host, 64, 64, 4, cudaMemcpyDeviceToHost));
    ENDS(cudaErrorInvalidPitchValue, cudaMemcpy2DToArray(array, 0, 0, host, 60, 64, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpyToArray(array, 0, 0, host, 257, in));
    ENDS(cudaErrorInvalidValue, cudaMemcpyToArray(array, 64, 0, host, 4, in));
    ENDS(cudaErrorInvalidValue, cudaMemset2D(device, 63, 0, 64, 4));
    ENDS(cudaErrorInvalidValue, cudaMemset2D(host, 64, 0, 64, 4));
    ENDS(cudaErrorInvalidValue, cudaMemset2D(device, 128, 0, 64, 33));
    OK(cudaMemset2D(device, 128, 0, 64, 32));
    struct cudaPitchedPtr flat = {device, 64, 64, 2};
    ENDS(cudaErrorInvalidValue, cudaMemset3D(flat, 0, (struct cudaExtent){64, 3, 2}));
    struct cudaMemcpy3DParms copy = {.kind = in, .extent = {16, 4, 1}};
    ENDS(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
    ENDS(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    copy.srcPtr = (struct cudaPitchedPtr){host, 64, 64, 4};
    copy.dstPtr = (struct cudaPitchedPtr){device, 64, 64, 4};
    copy.dstArray = array;
    ENDS(cudaErrorInvalidValue, cudaMemcpy3D(&copy)); /* two destinations */
    copy.dstPtr.ptr = NULL;
    OK(cudaMemcpy3D(&copy));
    copy.extent.depth = 2;
    ENDS(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    OK(cudaFree(device));
    OK(cudaFreeArray(array));
}

static void textures(void)
{
    cudaArray_t ints;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    struct cudaTextureDesc plain = {.filterMode = cudaFilterModePoint};
    struct cudaTextureDesc linear = {.filterMode = cudaFilterModeLinear};
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray};
    OK(cudaMallocArray(&ints, &INTS, 16, 4, 0));
    resource.res.array.array = ints;
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &linear, NULL));
    ENDS(cudaErrorInvalidValue, cudaCreateSurfaceObject(&surface, &resource)); /* without cudaArraySurfaceLoadStore */
    struct cudaResourceViewDesc view = {.format = cudaResViewFormatUnsignedChar4, .lastMipmapLevel = 1};
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, &view));
    view.lastMipmapLevel = 0;
    view.format = cudaResViewFormatFloat2; /* texels of another size */
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, &view));
    view.format = cudaResViewFormatFloat1;
    OK(cudaCreateTextureObject(&texture, &resource, &linear, &view));
    ENDS(cudaErrorInvalidValue, cudaDestroySurfaceObject(texture));
    OK(cudaDestroyTextureObject(texture));
    ENDS(cudaErrorInvalidValue, cudaDestroyTextureObject(texture));
    ENDS(cudaErrorInvalidValue, cudaGetTextureObjectResourceDesc(&resource, texture));
    OK(cudaDestroyTextureObject(0));
    plain.addressMode[1] = (enum cudaTextureAddressMode)4;
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    plain.addressMode[1] = cudaAddressModeClamp;
    OK(cudaFreeArray(ints));
    ENDS(cudaErrorInvalidResourceHandle, cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = &resource;
    resource.res.linear.desc = FLOATS;
    resource.res.linear.sizeInBytes = 4;
    resource.res.linear.devPtr = NULL;
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    OK(cudaMalloc(&resource.res.linear.devPtr, 4096));
    resource.res.linear.sizeInBytes = 0;
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    resource.res.linear.sizeInBytes = 1 << 20; /* beyond the allocation, at whose end it ends */
    OK(cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFree(resource.res.linear.devPtr));
}

static void after_reset(void)
{
    cudaArray_t array;
    cudaTextureObject_t texture;
    struct cudaTextureDesc plain = {.filterMode = cudaFilterModePoint};
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray};
    OK(cudaMallocArray(&array, &FLOATS, 16, 4, 0));
    resource.res.array.array = array;
    OK(cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    OK(cudaDeviceReset());
    ENDS(cudaErrorInvalidValue, cudaDestroyTextureObject(texture));
    ENDS(cudaErrorInvalidResourceHandle, cudaCreateTextureObject(&texture, &resource, &plain, NULL));
    OK(cudaMallocArray(&resource.res.array.array, &FLOATS, 16, 4, 0));
    OK(cudaFreeArray(resource.res.array.array));
}

static void absent(void)
{
    cudaIpcMemHandle_t handle;
    cudaExternalMemory_t memory;
    int value = 1;
    ENDS(cudaErrorInvalidValue, cudaIpcGetMemHandle(&handle, NULL));
    ENDS(cudaErrorNotSupported, cudaImportExternalMemory(&memory, NULL));
    ENDS(cudaErrorNotSupported, cudaGraphicsMapResources(0, NULL, NULL));
    OK(cudaDeviceCanAccessPeer(&value, 0, 0));
    CHECK(value == 0);
    ENDS(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&value, 0, 1));
    ENDS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    ENDS(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(0, 1));
    ENDS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    ENDS(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
}

int main(void)
{
    arrays();
    mipmaps();
    rows();
    textures();
    after_reset();
    absent();
    puts("all errors are right");
    return 0;
}
