// Convolutions: pieces of the image are laid out as columns of a matrix, which the filters are multiplied with.
#include "openblas.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

namespace vgc
{
namespace
{
constexpr int64_t PANEL = 512; /* terms whose columns are laid out at once */
template <class T> constexpr double TERM_NS = sizeof(T) == 8 ? 0.035 : 0.02;

template <class T> struct Call {
    vgc_conv2d_params p;
    int64_t out_h, out_w;
    int64_t terms, filters;            /* of a group */
    int64_t filter_tile, filter_tiles; /* of a group */
    int64_t pixel_tile, pixel_tiles;   /* of an image */
    Split split;
    Scratch scratch;

    /* A filter of one pixel needs no columns: the image is the matrix. */
    bool is_pointwise() const
    {
        return p.kernel_h == 1 && p.kernel_w == 1 && p.stride_h == 1 && p.stride_w == 1 && p.pad_h == 0 && p.pad_w == 0;
    }
};

/* Place of a block in the result. */
struct Tile {
    int64_t image, group, filter, filters, pixel, pixels;
};

template <class T> Tile tile_at(const Call<T> &call, uint64_t index)
{
    auto i = static_cast<int64_t>(index);
    Tile tile = {};
    tile.pixel = i % call.pixel_tiles * call.pixel_tile;
    i /= call.pixel_tiles;
    tile.filter = i % call.filter_tiles * call.filter_tile;
    i /= call.filter_tiles;
    tile.group = i % call.p.groups;
    tile.image = i / call.p.groups;
    tile.pixels = std::min(call.pixel_tile, call.out_h * call.out_w - tile.pixel);
    tile.filters = std::min(call.filter_tile, call.filters - tile.filter);
    return tile;
}

/* Pixels of one row of the image, from column `x` on, each `stride` further; zeros outside of it. */
template <class T> void lay_out_row(const T *row, int64_t width, int64_t x, int64_t stride, int64_t count, T *to)
{
    int64_t i = 0;
    for (; i < count && x < 0; i++, x += stride)
        to[i] = 0;
    for (; i < count && x < width; i++, x += stride)
        to[i] = row[x];
    std::fill(to + i, to + count, T(0));
}

/* Lays out one term of the filter for all pixels of a tile. */
template <class T> void lay_out_term(const Call<T> &call, const Tile &tile, int64_t term, T *to)
{
    const vgc_conv2d_params &p = call.p;
    int64_t j = term % p.kernel_w, i = term / p.kernel_w % p.kernel_h, channel = term / p.kernel_w / p.kernel_h;
    channel += tile.group * (p.channels / p.groups);
    const T *plane = at<const T>(p.x) + (tile.image * p.channels + channel) * p.height * p.width;
    int64_t end = tile.pixel + tile.pixels;
    for (int64_t pixel = tile.pixel; pixel < end;) {
        int64_t out_y = pixel / call.out_w, out_x = pixel % call.out_w;
        int64_t count = std::min(call.out_w - out_x, end - pixel);
        int64_t y = out_y * p.stride_h - p.pad_h + i * p.dilation_h;
        int64_t x = out_x * p.stride_w - p.pad_w + j * p.dilation_w;
        if (y < 0 || y >= p.height)
            std::fill(to, to + count, T(0));
        else
            lay_out_row(plane + y * p.width, p.width, x, p.stride_w, count, to);
        to += count;
        pixel += count;
    }
}

/* Adds the products of some terms; the first ones set the result. */
template <class T>
void add_terms(const Call<T> &call, const Tile &tile, int64_t first, int64_t terms, const T *columns, int64_t ld)
{
    int64_t filter = tile.group * call.filters + tile.filter, plane = call.out_h * call.out_w;
    const T *weights = at<const T>(call.p.weights) + filter * call.terms + first;
    T *y = at<T>(call.p.y) + (tile.image * call.p.filters + filter) * plane + tile.pixel;
    if (first == 0)
        for (int64_t i = 0; i < tile.filters; i++)
            std::fill_n(y + i * plane, tile.pixels, T(0));
    blas<T>().gemm(ROW_MAJOR, AS_IS, AS_IS, tile.filters, tile.pixels, terms, T(1), weights,
                   std::max<int64_t>(call.terms, 1), columns, ld, T(1), y, plane);
}

template <class T> void run_pointwise(const Call<T> &call, uint64_t block)
{
    const vgc_conv2d_params &p = call.p;
    for (uint64_t index = call.split.begin(block); index < call.split.end(block); index++) {
        Tile tile = tile_at(call, index);
        const T *image = at<const T>(p.x) + (tile.image * p.channels + tile.group * call.terms) * p.height * p.width;
        add_terms(call, tile, 0, call.terms, image + tile.pixel, p.height * p.width);
    }
}

template <class T> void run_tiles(const Call<T> &call, uint64_t block)
{
    Lease lease(call.scratch);
    T *columns = reinterpret_cast<T *>(lease.memory());
    for (uint64_t index = call.split.begin(block); index < call.split.end(block); index++) {
        Tile tile = tile_at(call, index);
        int64_t first = 0;
        do {
            int64_t terms = std::min(PANEL, call.terms - first);
            for (int64_t i = 0; i < terms; i++)
                lay_out_term(call, tile, first + i, columns + i * tile.pixels);
            add_terms(call, tile, first, terms, columns, tile.pixels);
            first += PANEL;
        } while (first < call.terms);
    }
}

/* Chooses tiles that take about half a millisecond, if there are enough of them for all threads. */
template <class T> void choose_tiles(Plan &plan, Call<T> &call, double pixel_ns)
{
    double pixels = static_cast<double>(call.out_h) * static_cast<double>(call.out_w);
    double shared = pixels * static_cast<double>(call.p.batch * call.p.groups) / (4.0 * plan.pes());
    double wanted = std::min({500e3 / pixel_ns, plan.pes() > 1 ? shared : 1024.0, 1024.0, pixels});
    call.pixel_tile = std::max(static_cast<int64_t>(wanted), std::min<int64_t>(32, static_cast<int64_t>(pixels)));
    call.pixel_tiles = (call.out_h * call.out_w + call.pixel_tile - 1) / call.pixel_tile;
    double tile_ns = pixel_ns * static_cast<double>(call.pixel_tile);
    auto pieces = static_cast<int64_t>(std::clamp(tile_ns / 1e6, 1.0, static_cast<double>(call.filters)));
    call.filter_tile = (call.filters + pieces - 1) / pieces;
    call.filter_tiles = (call.filters + call.filter_tile - 1) / call.filter_tile;
}

template <class T> void plan_conv2d(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_conv2d_params *>(params);
    if (p.batch == 0 || p.filters == 0)
        return;
    Call<T> call = {};
    call.p = p;
    call.out_h = (p.height + 2 * p.pad_h - (p.kernel_h - 1) * p.dilation_h - 1) / p.stride_h + 1;
    call.out_w = (p.width + 2 * p.pad_w - (p.kernel_w - 1) * p.dilation_w - 1) / p.stride_w + 1;
    call.terms = p.channels / p.groups * p.kernel_h * p.kernel_w;
    call.filters = p.filters / p.groups;
    double pixel_ns = static_cast<double>(call.terms) * (TERM_NS<T> * static_cast<double>(call.filters) + 0.5) + 1;
    double images = static_cast<double>(p.batch) * static_cast<double>(p.groups);
    plan.expect(pixel_ns * static_cast<double>(call.out_h) * static_cast<double>(call.out_w) * images);
    choose_tiles(plan, call, pixel_ns);
    call.split = plan.split(static_cast<uint64_t>(p.batch * p.groups * call.filter_tiles * call.pixel_tiles),
                            pixel_ns * static_cast<double>(call.pixel_tile) / static_cast<double>(call.filter_tiles));
    if (!call.is_pointwise())
        call.scratch = plan.scratch(static_cast<uint64_t>(std::min(PANEL, call.terms) * call.pixel_tile) * sizeof(T));
    auto *kept = plan.keep(call);
    if (call.is_pointwise())
        plan.add<run_pointwise<T>>(call.split.blocks(), kept);
    else
        plan.add<run_tiles<T>>(call.split.blocks(), kept);
}

} // namespace

Planner conv_planner(uint32_t, uint32_t type)
{
    return type == VGC_TYPE_F32 ? plan_conv2d<float> : plan_conv2d<double>;
}
} // namespace vgc
