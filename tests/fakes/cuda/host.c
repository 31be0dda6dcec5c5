/* Allocations outside of streams: device memory, and host memory that the device can access. */
#include <stdlib.h>

#include "fake.h"

FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_memory *memory = result ? NULL : fake_memory_new(call.context, size, FAKE_MEM_DEVICE, NULL, &result);
    if (memory)
        *address = memory->address;
    FAKE_LEAVE("%zu -> %#llx", size, memory ? memory->address : 0);
}

FAKE_API CUresult cuMemFree_v2(CUdeviceptr address)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && !fake_memory_usable(call.context, address, 1))
        result = CUDA_ERROR_INVALID_VALUE;
    struct fake_memory *memory = result ? NULL : fake_memory_find(address, 1);
    if (memory && (memory->address != address || memory->kind > FAKE_MEM_POOL)) {
        fake_misuse("%#llx is to be freed, but is not the start of an allocation", address);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result)
        fake_memory_end(memory);
    FAKE_LEAVE("%#llx", address);
}

FAKE_API CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result) {
        *total = fake.settings.devices[call.context->device].memory_bytes;
        *available = *total - fake_memory_used(call.context->device);
    }
    FAKE_LEAVE("%s", "");
}

FAKE_API CUresult cuMemHostAlloc(void **host, size_t size, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (!size || flags > 7))
        result = CUDA_ERROR_INVALID_VALUE;
    void *bytes = NULL;
    if (!result && posix_memalign(&bytes, 4096, size) != 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        fake_memory_adopt(call.context, bytes, size, FAKE_MEM_HOST, (CUdeviceptr)bytes)->flags = flags;
        *host = bytes;
    }
    FAKE_LEAVE("%zu, %#x -> %p", size, flags, bytes);
}

FAKE_API CUresult cuMemFreeHost(void *host)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_memory *memory = result ? NULL : fake_memory_at_host(host, 1);
    if (!result && (!memory || memory->host != host || memory->kind != FAKE_MEM_HOST)) {
        fake_misuse("%p is to be freed, but is not from cuMemHostAlloc", host);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result)
        fake_memory_end(memory);
    FAKE_LEAVE("%p", host);
}

/* A device address with the same offset in a page. */
static CUdeviceptr address_for(int device, const void *host, size_t size)
{
    enum { PAGE = 4096 };
    CUdeviceptr address = fake_memory_window(device, size + 2 * PAGE);
    return address ? (address + PAGE - 1) / PAGE * PAGE + (uintptr_t)host % PAGE : 0;
}

FAKE_API CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result && (!host || !size || flags > 15))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && (fake_memory_at_host(host, 1) || fake_memory_at_host((char *)host + size - 1, 1)))
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!result) {
        bool same = fake.settings.devices[call.context->device].host_pointers;
        CUdeviceptr address = same ? (CUdeviceptr)host : address_for(call.context->device, host, size);
        fake_memory_adopt(call.context, host, size, FAKE_MEM_REGISTERED, address)->flags = flags;
    }
    FAKE_LEAVE("%p, %zu, %#x", host, size, flags);
}

FAKE_API CUresult cuMemHostUnregister(void *host)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_memory *memory = result ? NULL : fake_memory_at_host(host, 1);
    if (!result && (!memory || memory->host != host || memory->kind != FAKE_MEM_REGISTERED)) {
        fake_misuse("%p is to be unregistered, but was not registered", host);
        result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    if (!result)
        fake_memory_end(memory);
    FAKE_LEAVE("%p", host);
}

FAKE_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned int flags)
{
    FAKE_CALL(FAKE_CURRENT);
    struct fake_memory *memory = result ? NULL : fake_memory_at_host(host, 1);
    if (!result && (flags || !memory))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && memory->kind == FAKE_MEM_REGISTERED && !(memory->flags & CU_MEMHOSTREGISTER_DEVICEMAP)) {
        fake_misuse("%p was registered without DEVICEMAP", host);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result)
        *address = memory->address + (CUdeviceptr)((char *)host - memory->host);
    FAKE_LEAVE("%p -> %#llx", host, result ? 0 : *address);
}

static CUresult describe(void *data, int key, const struct fake_memory *memory)
{
    bool host = memory->kind == FAKE_MEM_HOST || memory->kind == FAKE_MEM_REGISTERED;
    switch (key) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = memory->context->handle;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = memory->host;
        return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = memory->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = memory->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = memory->size;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

FAKE_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute key, CUdeviceptr address)
{
    FAKE_CALL(FAKE_CURRENT);
    const struct fake_memory *memory = result ? NULL : fake_memory_find(address, 1);
    if (!result && !memory)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = describe(data, (int)key, memory);
    FAKE_LEAVE("%d, %#llx", (int)key, address);
}
