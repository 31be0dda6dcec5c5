/* Copies of boxes, with the rules of NVIDIA's documentation of cuMemcpy3D. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const size_t MAX_PITCH = 0x7fffffff;

struct side {
    size_t x, y, z, pitch, height;
    CUdeviceptr address; /* of its first byte, unless it is an array */
    struct fake_array *array;
};

struct box_op {
    struct fake_op op;
    struct side dst, src;
    size_t width, height, depth;
};

/* Bytes from the first one of the first row to the last one of the last row. */
static size_t extent(const struct side *side, const struct box_op *box)
{
    return ((box->depth - 1) * side->height + box->height - 1) * side->pitch + box->width;
}

/* Begin of the side's rows, which are pinned if they are memory. */
static char *pin(const struct side *side, const struct box_op *box, struct fake_memory **memory)
{
    *memory = NULL;
    return side->array ? side->array->texels : fake_memory_pin(side->address, extent(side, box), memory);
}

static char *row(const struct side *side, char *begin, size_t y, size_t z)
{
    return side->array ? fake_array_row(side->array, side->y + y, side->z + z) + side->x
                       : begin + (z * side->height + y) * side->pitch;
}

static CUresult run_box(struct fake_op *op)
{
    struct box_op *box = (struct box_op *)op;
    struct fake_memory *to, *from;
    char *dst = pin(&box->dst, box, &to), *src = pin(&box->src, box, &from);
    for (size_t z = 0; dst && src && z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memmove(row(&box->dst, dst, y, z), row(&box->src, src, y, z), box->width);
    if (to)
        fake_memory_unpin(to);
    if (from)
        fake_memory_unpin(from);
    return dst && src ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void drop_box(struct fake_op *op)
{
    struct box_op *box = (struct box_op *)op;
    if (box->dst.array)
        fake_array_pin(box->dst.array, -1);
    if (box->src.array)
        fake_array_pin(box->src.array, -1);
}

static bool check_array(const struct side *side, const struct box_op *box)
{
    const CUDA_ARRAY3D_DESCRIPTOR *shape = &side->array->shape;
    size_t texel = fake_texel_bytes((int)shape->Format, shape->NumChannels);
    return side->x % texel == 0 && box->width % texel == 0 && side->x + box->width <= shape->Width * texel &&
           side->y + box->height <= fake_array_rows(side->array) &&
           side->z + box->depth <= fake_array_slices(side->array);
}

/* Finds an array, or the place of memory, and checks it against the box. */
static CUresult place(struct fake_call *call, struct side *side, int type, const void *host, CUarray handle,
                      const struct box_op *box)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        side->array = fake_handle_get(handle, FAKE_ARRAY);
        if (!side->array || side->array->context != call->context->primary || !side->array->texels)
            return CUDA_ERROR_INVALID_HANDLE;
        return check_array(side, box) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (side->pitch > MAX_PITCH || (side->pitch && side->pitch < box->width + side->x) ||
        (side->height && side->height < box->height + side->y) || (box->height > 1 && !side->pitch) ||
        (box->depth > 1 && (!side->height || !side->pitch)))
        return CUDA_ERROR_INVALID_VALUE;
    size_t offset = (side->z * side->height + side->y) * side->pitch + side->x;
    const char *begin = (const char *)host + offset;
    const struct fake_memory *memory = NULL;
    side->address += offset;
    if (type == CU_MEMORYTYPE_HOST) {
        memory = fake_memory_at_host(begin, extent(side, box));
        if (!memory) {
            fake_misuse("a box of pageable memory, or beyond registered memory: %p", (const void *)begin);
            return CUDA_ERROR_INVALID_VALUE;
        }
        side->address = memory->address + (CUdeviceptr)(begin - memory->host);
    } else if (type != CU_MEMORYTYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return fake_memory_usable(call->context, side->address, extent(side, box)) ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_texels(const struct box_op *box)
{
    if (!box->dst.array || !box->src.array)
        return CUDA_SUCCESS;
    const CUDA_ARRAY3D_DESCRIPTOR *dst = &box->dst.array->shape, *src = &box->src.array->shape;
    return fake_texel_bytes((int)dst->Format, dst->NumChannels) == fake_texel_bytes((int)src->Format, src->NumChannels)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy(struct fake_call *call, const CUDA_MEMCPY3D *given, CUstream on)
{
    CUresult result = CUDA_SUCCESS;
    struct fake_stream *stream = fake_stream_get(on, call->context, &result);
    if (!stream || !given->WidthInBytes || !given->Height || !given->Depth)
        return result;
    if (given->srcLOD || given->dstLOD || given->reserved0 || given->reserved1)
        return CUDA_ERROR_INVALID_VALUE;
    struct box_op box = {.op = {.run = run_box, .drop = drop_box},
                         .dst = {given->dstXInBytes, given->dstY, given->dstZ, given->dstPitch, given->dstHeight,
                                 given->dstDevice, NULL},
                         .src = {given->srcXInBytes, given->srcY, given->srcZ, given->srcPitch, given->srcHeight,
                                 given->srcDevice, NULL},
                         .width = given->WidthInBytes,
                         .height = given->Height,
                         .depth = given->Depth};
    result = place(call, &box.dst, (int)given->dstMemoryType, given->dstHost, given->dstArray, &box);
    if (!result)
        result = place(call, &box.src, (int)given->srcMemoryType, given->srcHost, given->srcArray, &box);
    if (!result)
        result = check_texels(&box);
    if (result)
        return result;
    if (box.dst.array)
        fake_array_pin(box.dst.array, 1);
    if (box.src.array)
        fake_array_pin(box.src.array, 1);
    struct box_op *op = malloc(sizeof *op);
    if (!op)
        abort();
    *op = box;
    return fake_submit(stream, &op->op);
}

FAKE_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *box, CUstream stream)
{
    FAKE_CALL(FAKE_CURRENT);
    if (!result)
        result = copy(&call, box, stream);
    FAKE_LEAVE("%d -> %d, %zu x %zu x %zu, pitch=%zu,%zu height=%zu,%zu, %p", (int)box->srcMemoryType,
               (int)box->dstMemoryType, box->WidthInBytes, box->Height, box->Depth, box->srcPitch, box->dstPitch,
               box->srcHeight, box->dstHeight, (void *)stream);
}
