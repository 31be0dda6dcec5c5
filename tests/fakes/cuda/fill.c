/* Fills: `height` rows of `width` elements, `pitch` bytes apart. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

struct fill {
    CUdeviceptr dst;
    size_t pitch, width, height;
    unsigned int value, unit;
};

struct fill_op {
    struct fake_op op;
    struct fill fill;
};

static size_t extent(const struct fill *fill)
{
    return (fill->height - 1) * fill->pitch + fill->width * fill->unit;
}

/* Writes the pattern once, then doubles it by copies. */
static void fill_row(char *row, const struct fill *fill)
{
    size_t whole = fill->width * fill->unit, have = fill->unit;
    memcpy(row, &fill->value, have);
    for (; have < whole; have *= 2)
        memcpy(row + have, row, have < whole - have ? have : whole - have);
}

static CUresult run_fill(struct fake_op *op)
{
    const struct fill *fill = &((struct fill_op *)op)->fill;
    struct fake_memory *memory;
    char *bytes = fake_memory_pin(fill->dst, extent(fill), &memory);
    if (!bytes)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < fill->height; row++)
        fill_row(bytes + row * fill->pitch, fill);
    fake_memory_unpin(memory);
    return CUDA_SUCCESS;
}

static CUresult submit(struct fake_call *call, struct fill fill, CUstream on, bool wait)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(on, call->context, &result);
    if (!stream || !fill.width || !fill.height)
        return result;
    if (fill.dst % fill.unit || fill.pitch % fill.unit || (fill.height > 1 && fill.pitch < fill.width * fill.unit) ||
        !fake_memory_usable(call->context, fill.dst, extent(&fill)))
        return CUDA_ERROR_INVALID_VALUE;
    struct fill_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    *op = (struct fill_op){.op = {.run = run_fill, .computes = true}, .fill = fill};
    result = fake_submit(stream, &op->op);
    return result || !wait ? result : fake_stream_wait(stream);
}

#define FAKE_FILL(name, type, bytes)                                                                                   \
    FAKE_API CUresult name##_v2(CUdeviceptr dst, type value, size_t count)                                             \
    {                                                                                                                  \
        FAKE_CALL(FAKE_CURRENT);                                                                                       \
        if (!result)                                                                                                   \
            result = submit(&call, (struct fill){dst, 0, count, 1, value, bytes}, NULL, true);                         \
        FAKE_LEAVE("%#llx, %#x, %zu", dst, value, count);                                                              \
    }                                                                                                                  \
    FAKE_API CUresult name##Async(CUdeviceptr dst, type value, size_t count, CUstream stream)                          \
    {                                                                                                                  \
        FAKE_CALL(FAKE_CURRENT);                                                                                       \
        if (!result)                                                                                                   \
            result = submit(&call, (struct fill){dst, 0, count, 1, value, bytes}, stream, false);                      \
        FAKE_LEAVE("%#llx, %#x, %zu, %p", dst, value, count, (void *)stream);                                          \
    }

#define FAKE_FILL_ROWS(name, type, bytes)                                                                              \
    FAKE_API CUresult name##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height)                \
    {                                                                                                                  \
        FAKE_CALL(FAKE_CURRENT);                                                                                       \
        if (!result)                                                                                                   \
            result = submit(&call, (struct fill){dst, pitch, width, height, value, bytes}, NULL, true);                \
        FAKE_LEAVE("%#llx, %zu, %#x, %zu, %zu", dst, pitch, value, width, height);                                     \
    }                                                                                                                  \
    FAKE_API CUresult name##Async(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height,              \
                                  CUstream stream)                                                                     \
    {                                                                                                                  \
        FAKE_CALL(FAKE_CURRENT);                                                                                       \
        if (!result)                                                                                                   \
            result = submit(&call, (struct fill){dst, pitch, width, height, value, bytes}, stream, false);             \
        FAKE_LEAVE("%#llx, %zu, %#x, %zu, %zu, %p", dst, pitch, value, width, height, (void *)stream);                 \
    }

FAKE_FILL(cuMemsetD8, unsigned char, 1)
FAKE_FILL(cuMemsetD16, unsigned short, 2)
FAKE_FILL(cuMemsetD32, unsigned int, 4)
FAKE_FILL_ROWS(cuMemsetD2D8, unsigned char, 1)
FAKE_FILL_ROWS(cuMemsetD2D16, unsigned short, 2)
FAKE_FILL_ROWS(cuMemsetD2D32, unsigned int, 4)
