/* Memory: copies by the direction that their names give, fills of units, rows, what is known of pointers. */
#include "driver_checks.h"

static void copies(void)
{
    CUdeviceptr a, b;
    CUstream stream;
    unsigned host[COUNT], back[COUNT] = {0};
    for (unsigned i = 0; i < COUNT; i++)
        host[i] = i * i;
    OK(cuMemAlloc(&a, sizeof(host)));
    OK(cuMemAlloc(&b, sizeof(host)));
    OK(cuMemcpyHtoD(a, host, sizeof(host)));
    OK(cuMemcpyDtoD(b, a, sizeof(host)));
    OK(cuMemcpyDtoH(back, b, sizeof(back)));
    CHECK(memcmp(host, back, sizeof(host)) == 0);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(back, 0, sizeof(back));
    host[5] = 12345;
    OK(cuMemcpyHtoDAsync(a, host, sizeof(host), stream));
    OK(cuMemcpyDtoDAsync(b, a, sizeof(host), stream));
    OK(cuMemcpyDtoHAsync(back, b, sizeof(back), stream));
    OK(cuStreamSynchronize(stream));
    CHECK(memcmp(host, back, sizeof(host)) == 0);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, a + 8, 8));
    CHECK(back[0] == 4 && back[1] == 9);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemFree(b + 4));
    OK(cuMemFree(b));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&a, 0));
    ENDS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&a, (size_t)1 << 50));
}

static void fills(void)
{
    CUdeviceptr memory;
    size_t pitch;
    unsigned char bytes[8];
    unsigned short halves[4];
    unsigned words[2];
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemsetD8(memory, 0xab, 8));
    OK(cuMemcpyDtoH(bytes, memory, 8));
    CHECK(bytes[0] == 0xab && bytes[7] == 0xab);
    OK(cuMemsetD16(memory, 0xabcd, 2));
    OK(cuMemcpyDtoH(halves, memory, 8));
    CHECK(halves[0] == 0xabcd && halves[1] == 0xabcd && halves[2] == 0xabab);
    OK(cuMemsetD32Async(memory, 0x12345678, 1, NULL));
    OK(cuMemcpyDtoH(words, memory, 8));
    CHECK(words[0] == 0x12345678 && words[1] == 0xabababab);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory + 2, 1, 1));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory, 1, 1025));
    OK(cuMemFree(memory));

    OK(cuMemAllocPitch(&memory, &pitch, 12, 5, 4));
    CHECK(pitch >= 12 && pitch % 4 == 0);
    OK(cuMemsetD2D32(memory, pitch, 9, 3, 5));
    unsigned rows[5][4] = {{0}};
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = memory,
                                .srcPitch = pitch,
                                .srcXInBytes = 4,
                                .srcY = 1,
                                .dstMemoryType = CU_MEMORYTYPE_HOST,
                                .dstHost = rows,
                                .dstPitch = sizeof(rows[0]),
                                .dstXInBytes = 8,
                                .dstY = 2,
                                .WidthInBytes = 8,
                                .Height = 3};
    OK(cuMemcpy2D(&copy));
    for (unsigned y = 0; y < 5; y++)
        for (unsigned x = 0; x < 4; x++)
            CHECK(rows[y][x] == (x >= 2 && y >= 2 ? 9u : 0u));
    OK(cuMemFree(memory));
}

/* Page-locked memory is the device's, too, at the host's address. */
static void page_locked(void)
{
    CUdeviceptr base;
    CUstream stream;
    size_t size;
    void *host;
    unsigned char back[8] = {0};
    OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    const CUdeviceptr seen = (CUdeviceptr)(uintptr_t)host;
    OK(cuMemGetAddressRange(&base, &size, seen + 100));
    CHECK(base == seen && size == 4096);
    OK(cuMemsetD8(seen, 0xab, 8));
    OK(cuMemcpyDtoH(back, seen, 8));
    CHECK(back[0] == 0xab && back[7] == 0xab);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(seen + 4, 1, 4093));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD2D16Async(seen, 1024, 0x1234, 2, 2, stream));
    OK(cuMemcpyDtoDAsync(seen + 2048, seen + 1024, 4, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(((unsigned short *)host)[512] == 0x1234 && ((unsigned short *)host)[1025] == 0x1234);
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(host));

    unsigned *words = calloc(2, sizeof(*words));
    OK(cuMemHostRegister(words, 8, 0));
    OK(cuMemsetD32((CUdeviceptr)(uintptr_t)words, 0x12345678, 1));
    CHECK(words[0] == 0x12345678 && words[1] == 0);
    OK(cuMemHostUnregister(words));
    ENDS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)words));
    free(words);
}

static void pointers(CUcontext context)
{
    CUdeviceptr memory, base, value;
    size_t size;
    void *host;
    unsigned type = 0, managed = 1;
    int ordinal = -1;
    CUcontext owner;
    OK(cuMemAlloc(&memory, 1000));
    OK(cuMemGetAddressRange(&base, &size, memory + 999));
    CHECK(base == memory && size == 1000);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 4));
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory + 4));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
    CHECK(type == CU_MEMORYTYPE_DEVICE && value == memory + 4 && ordinal == 0 && !managed && owner == context);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &size};
    OK(cuPointerGetAttributes(2, names, values, (CUdeviceptr)(uintptr_t)&type));
    CHECK(type == 0 && size == 0);
    OK(cuCtxPopCurrent(NULL)); /* addresses are those of the process */
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    OK(cuPointerGetAttributes(2, names, values, memory));
    CHECK(type == CU_MEMORYTYPE_DEVICE && size == 1000);
    OK(cuCtxPushCurrent(context));

    OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemFreeHost(host));
    OK(cuMemAllocManaged(&memory, 4096, 1));
    *(unsigned *)(uintptr_t)memory = 77;
    CHECK(first_of(memory) == 77);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    CHECK(managed == 1);
    OK(cuMemFree(memory));
    OK(cuMemAllocAsync(&memory, 0, NULL)); /* there is nothing to have, and nothing to give back */
    CHECK(memory == 0 && cuMemFreeAsync(memory, NULL) == CUDA_SUCCESS);
    OK(cuMemAllocAsync(&memory, 64, NULL));
    OK(cuMemsetD32Async(memory, 5, 16, NULL));
    CHECK(first_of(memory) == 5);
    OK(cuMemFreeAsync(memory, NULL));
}

int main(void)
{
    CUcontext context = begin();
    copies();
    fills();
    page_locked();
    pointers(context);
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
