// Convolutions, as products of matrices, of which one is never laid out: the pixels below the filters.
#include "tiles.cuh"

namespace vgc
{
/* A column of that matrix: a pixel of the result, with the place of the filter's begin in the image, which may be in
 * the padding. */
struct Pixel {
    u64 image; /* first element of the group's channels of the image */
    i64 y, x;
};

__device__ inline Pixel pixel_of(const conv_call &call, u64 group, u64 column)
{
    u64 image = divide(column, call.pixels), pixel = column - image * call.pixels;
    u64 row = divide(pixel, call.out_w);
    Pixel found;
    found.image = (image * call.groups + group) * call.channels * call.height * call.width;
    found.y = static_cast<i64>(row * call.stride_h) - call.pad_h;
    found.x = static_cast<i64>((pixel - row * call.out_w) * call.stride_w) - call.pad_w;
    return found;
}

/* The pixel below a term of the filter; 0 outside of the image. */
template <class T> __device__ T below(const conv_call &call, const Pixel &pixel, u64 term)
{
    u64 row = divide(term, call.kernel_w), channel = divide(row, call.kernel_h);
    i64 y = pixel.y + static_cast<i64>((row - channel * call.kernel_h) * call.dilation_h);
    i64 x = pixel.x + static_cast<i64>((term - row * call.kernel_w) * call.dilation_w);
    auto height = static_cast<i64>(call.height), width = static_cast<i64>(call.width);
    if (y < 0 || y >= height || x < 0 || x >= width)
        return 0;
    return at<const T>(call.x)[pixel.image + (channel * call.height + y) * call.width + x];
}

template <class T> __device__ void put_pixel(const conv_call &call, u64 group, u64 filter, u64 column, T sum)
{
    u64 image = divide(column, call.pixels), pixel = column - image * call.pixels;
    u64 plane = (image * call.groups + group) * call.shape.m + filter;
    at<T>(call.y)[plane * call.pixels + pixel] = sum;
}

template <class T, u32 SIDE> __device__ void convolve(const conv_call &call)
{
    using Size = TileSize<SIDE>;
    const tile_shape &shape = call.shape;
    u64 tiles = shape.row_tiles * shape.column_tiles * shape.batch * shape.pieces;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        TilePlace place = tile_of(shape, tile, SIDE);
        const T *weights = at<const T>(call.weights) + place.batch * shape.m * shape.k;
        /* A thread loads elements of one column. */
        Pixel pixel = pixel_of(call, place.batch, place.column + threadIdx.x % SIDE);
        multiply_tile<Size, T>(
            shape, place, {true}, {false}, [&](u64 term, u64 filter) { return weights[filter * shape.k + term]; },
            [&](u64 term, u64) { return below<T>(call, pixel, term); },
            [&](u64 filter, u64 column, T sum) {
                u64 parts = place.piece * shape.batch + place.batch;
                if (shape.parts != 0)
                    at<T>(shape.parts)[dense_place(shape, parts, filter, column)] = sum;
                else
                    put_pixel(call, place.batch, filter, column, sum);
            });
    }
}

template <class T> __device__ void add_convolution(const conv_call &call)
{
    add_pieces<T>(call.shape,
                  [&](u64 group, u64 filter, u64 column, T sum) { put_pixel(call, group, filter, column, sum); });
}
} // namespace vgc

KERNEL conv_conv2d_f32(const conv_call call)
{
    vgc::convolve<float, TILE>(call);
}
KERNEL_OF_TWO conv_conv2d_f32_large(const conv_call call)
{
    vgc::convolve<float, LARGE_TILE>(call);
}
KERNEL conv_conv2d_f32_add(const conv_call call)
{
    vgc::add_convolution<float>(call);
}
KERNEL conv_conv2d_f64(const conv_call call)
{
    vgc::convolve<double, TILE>(call);
}
KERNEL conv_conv2d_f64_add(const conv_call call)
{
    vgc::add_convolution<double>(call);
}
