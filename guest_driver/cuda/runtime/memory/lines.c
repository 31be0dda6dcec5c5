/* Copies of bytes that run on from row to row of an array: cudaMemcpyToArray() and its kin. */
#include "runtime.h"

/* One side: an array and a place in it, or memory. */
struct line {
    cudaArray_const_t array;
    size_t width; /* of a row of the array, in bytes */
    size_t x;
    size_t y;
    char *pointer;
};

static cudaError_t start(struct line *line, cudaArray_const_t array, size_t x, size_t y, size_t bytes)
{
    cudaError_t error = rt_check_array(array);
    if (error != cudaSuccess)
        return error;
    *line = (struct line){array, array->extent.width * rt_texel_bytes(array->texels), x, y, NULL};
    size_t height = RT_MAX(array->extent.height, (size_t)1);
    bool is_inside = x < line->width && y < height && bytes <= (height - y) * line->width - x;
    if (!is_inside && bytes > 0)
        return rt_explain(cudaErrorInvalidValue, "%zu bytes from (%zu, %zu) on; the array has %zu rows of %zu bytes",
                          bytes, x, y, height, line->width);
    return cudaSuccess;
}

/* Bytes up to the end of the row. */
static size_t rest_of_row(const struct line *line)
{
    return line->array != NULL ? line->width - line->x : SIZE_MAX;
}

static bool begins_row(const struct line *line, size_t width)
{
    return line->array == NULL || (line->x == 0 && line->width == width);
}

static void move(struct line *line, size_t bytes)
{
    if (line->array == NULL) {
        line->pointer += bytes;
        return;
    }
    line->y += (line->x + bytes) / line->width;
    line->x = (line->x + bytes) % line->width;
}

static void put_side(const struct line *line, size_t pitch, cudaArray_t *array, struct cudaPos *pos,
                     struct cudaPitchedPtr *memory)
{
    *array = (cudaArray_t)(uintptr_t)line->array;
    if (line->array != NULL)
        *pos = (struct cudaPos){line->x / rt_texel_bytes(line->array->texels), line->y, 0};
    else
        *memory = (struct cudaPitchedPtr){line->pointer, pitch, pitch, 1};
}

/* Copies as many rows at once as both sides have whole, else to the end of a row. */
static cudaError_t copy(struct line dst, struct line src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool waits)
{
    cudaError_t error = cudaSuccess;
    size_t row = dst.array != NULL ? dst.width : src.width;
    size_t texel = rt_texel_bytes((dst.array != NULL ? dst.array : src.array)->texels);
    if (bytes % texel != 0 || dst.x % texel != 0 || src.x % texel != 0)
        return rt_explain(cudaErrorInvalidValue, "%zu bytes at %zu and %zu; texels have %zu bytes", bytes, src.x, dst.x,
                          texel);
    while (bytes > 0 && error == cudaSuccess) {
        bool whole = bytes >= row && begins_row(&dst, row) && begins_row(&src, row);
        size_t width = whole ? row : RT_MIN(bytes, RT_MIN(rest_of_row(&dst), rest_of_row(&src)));
        size_t height = whole ? bytes / row : 1;
        struct cudaMemcpy3DParms box = {.extent = {width / texel, height, 1}, .kind = kind};
        put_side(&dst, width, &box.dstArray, &box.dstPos, &box.dstPtr);
        put_side(&src, width, &box.srcArray, &box.srcPos, &box.srcPtr);
        error = rt_copy_3d(&box, stream, waits);
        move(&dst, width * height);
        move(&src, width * height);
        bytes -= width * height;
    }
    return error;
}

static cudaError_t to_array(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
    struct line dst;
    struct line src = {.pointer = (char *)(uintptr_t)from};
    cudaError_t error = start(&dst, to, x, y, bytes);
    return error == cudaSuccess ? copy(dst, src, bytes, kind, stream, waits) : error;
}

static cudaError_t from_array(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
    struct line dst = {.pointer = to};
    struct line src;
    cudaError_t error = start(&src, from, x, y, bytes);
    return error == cudaSuccess ? copy(dst, src, bytes, kind, stream, waits) : error;
}

RT_API cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind)
{
    return rt_return(to_array(to, x, y, from, bytes, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                                          enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(to_array(to, x, y, from, bytes, kind, stream, false));
}

RT_API cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                       enum cudaMemcpyKind kind)
{
    return rt_return(from_array(to, from, x, y, bytes, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(from_array(to, from, x, y, bytes, kind, stream, false));
}

RT_API cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                          size_t from_x, size_t from_y, size_t bytes, enum cudaMemcpyKind kind)
{
    struct line dst;
    struct line src;
    cudaError_t error = start(&dst, to, to_x, to_y, bytes);
    if (error == cudaSuccess)
        error = start(&src, from, from_x, from_y, bytes);
    return rt_return(error == cudaSuccess ? copy(dst, src, bytes, kind, NULL, true) : error);
}
