/* Copies. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* Source or destination of a copy: device memory, host memory that the device can access, or pageable memory. */
struct side {
    CUdeviceptr address;
    char *pageable;
};

struct copy_op {
    struct fake_op op;
    struct side dst, src;
    size_t size;
    char *staged; /* owned */
};

static char *pin(const struct side *side, size_t size, struct fake_memory **memory)
{
    *memory = NULL;
    return side->pageable ? side->pageable : fake_memory_pin(side->address, size, memory);
}

static CUresult run_copy(struct fake_op *op)
{
    struct copy_op *copy = (struct copy_op *)op;
    struct fake_memory *to, *from;
    char *dst = pin(&copy->dst, copy->size, &to), *src = pin(&copy->src, copy->size, &from);
    if (dst && src && dst < src + copy->size && src < dst + copy->size) {
        pthread_mutex_lock(&fake.lock);
        fake_misuse("a copy whose source and destination overlap: %#llx, %#llx", copy->dst.address, copy->src.address);
        pthread_mutex_unlock(&fake.lock);
        memset(dst, 0xba, copy->size);
    } else if (dst && src) {
        memcpy(dst, src, copy->size);
    }
    if (to)
        fake_memory_unpin(to);
    if (from)
        fake_memory_unpin(from);
    return dst && src ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void drop_copy(struct fake_op *op)
{
    free(((struct copy_op *)op)->staged);
}

/* Makes a side of host memory, with its device address if the device can access it. */
static struct side host_side(const void *host, size_t size)
{
    const struct fake_memory *memory = fake_memory_at_host(host, size);
    if (memory)
        return (struct side){.address = memory->address + (CUdeviceptr)((const char *)host - memory->host)};
    return (struct side){.pageable = (char *)(uintptr_t)host};
}

static bool usable(struct fake_call *call, const struct side *side, size_t size)
{
    return side->pageable || fake_memory_usable(call->context, side->address, size);
}

static CUresult copy(struct fake_call *call, struct side dst, struct side src, size_t size, CUstream on, bool wait)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(on, call->context, &result);
    if (!stream || !size)
        return result;
    if (!usable(call, &dst, size) || !usable(call, &src, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct copy_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    *op = (struct copy_op){.op = {.run = run_copy, .drop = drop_copy}, .dst = dst, .src = src, .size = size};
    if (src.pageable) { /* the driver copies it before it returns */
        op->src.pageable = op->staged = malloc(size);
        if (!op->staged)
            abort();
        memcpy(op->staged, src.pageable, size);
    }
    result = fake_submit(stream, &op->op);
    if (!result && (wait || dst.pageable)) /* and waits until all data has arrived */
        result = fake_stream_wait(stream);
    if (!result && wait)
        fake_context_flush(call->context);
    return result;
}

static struct side device_side(CUdeviceptr address)
{
    return (struct side){.address = address};
}

FAKE_API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t size)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, device_side(dst), host_side(src, size), size, NULL, true);
    FAKE_LEAVE("%#llx, %p, %zu", dst, src, size);
}

FAKE_API CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t size)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, host_side(dst, size), device_side(src), size, NULL, true);
    FAKE_LEAVE("%p, %#llx, %zu", dst, src, size);
}

FAKE_API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, device_side(dst), device_side(src), size, NULL, true);
    FAKE_LEAVE("%#llx, %#llx, %zu", dst, src, size);
}

FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, device_side(dst), host_side(src, size), size, stream, false);
    FAKE_LEAVE("%#llx, %p, %zu, %p", dst, src, size, (void *)stream);
}

FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, host_side(dst, size), device_side(src), size, stream, false);
    FAKE_LEAVE("%p, %#llx, %zu, %p", dst, src, size, (void *)stream);
}

FAKE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, device_side(dst), device_side(src), size, stream, false);
    FAKE_LEAVE("%#llx, %#llx, %zu, %p", dst, src, size, (void *)stream);
}

/* Makes a side of a device or host address. */
static struct side any_side(CUdeviceptr address, size_t size)
{
    return fake_memory_find(address, 1) || address >> 42 == 0x200000000000ULL >> 42
               ? device_side(address)
               : host_side((void *)(uintptr_t)address, size); // NOLINT(performance-no-int-to-ptr)
}

FAKE_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, any_side(dst, size), any_side(src, size), size, stream, false);
    FAKE_LEAVE("%#llx, %#llx, %zu, %p", dst, src, size, (void *)stream);
}

FAKE_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t size)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, any_side(dst, size), any_side(src, size), size, NULL, true);
    FAKE_LEAVE("%#llx, %#llx, %zu", dst, src, size);
}
