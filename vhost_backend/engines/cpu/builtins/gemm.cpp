// Products of matrices: tiles of the results are blocks, which OpenBLAS computes.
//
// Long sums are cut into panels. Each panel is a step of its own, which adds to the results, so that blocks stay short.
// Where there are too few tiles for all threads, panels are computed side by side instead and added up by a last step.
#include "gemm.h"

#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cmath>

namespace vgc
{
namespace
{
constexpr int64_t PANEL = 384; /* terms of a sum for which packing the operands no longer matters */
constexpr uint32_t MOST_STEPS = 48;

/* Nanoseconds of a multiplication with its addition, on one thread. */
template <class T> constexpr double TERM_NS = sizeof(T) == 8 ? 0.03 : 0.015;

template <class T> struct Call {
    vgc_gemm_params p;
    int64_t tile_m, tile_n, panel;
    int64_t tiles_m, tiles_n, panels;
    Split split; /* of tiles of all products, with their panels if these are computed side by side */
    float *sums; /* of halves, (batch, m, n), if there are several panels; else null */
    T *parts;    /* of panels that are computed side by side, (panels, batch, m, n); else null */
    Scratch scratch;
};

template <class T> struct Step {
    const Call<T> *call;
    int64_t panel;
};

/* Place of a tile. */
struct Tile {
    int64_t batch, row, column, rows, columns, first, terms;
};

template <class T> Tile tile_at(const Call<T> &call, uint64_t index, int64_t panel)
{
    Tile tile;
    uint64_t row = index / static_cast<uint64_t>(call.tiles_n) % static_cast<uint64_t>(call.tiles_m);
    tile.batch =
        static_cast<int64_t>(index / static_cast<uint64_t>(call.tiles_n) / static_cast<uint64_t>(call.tiles_m));
    tile.row = static_cast<int64_t>(row) * call.tile_m;
    tile.column = static_cast<int64_t>(index % static_cast<uint64_t>(call.tiles_n)) * call.tile_n;
    tile.rows = std::min(call.tile_m, call.p.m - tile.row);
    tile.columns = std::min(call.tile_n, call.p.n - tile.column);
    tile.first = panel * call.panel;
    tile.terms = std::min(call.panel, call.p.k - tile.first);
    return tile;
}

template <class T> const T *a_of(const vgc_gemm_params &p, const Tile &tile)
{
    const T *a = at<const T>(p.a) + tile.batch * p.stride_a;
    return p.transpose_a ? a + tile.first * p.lda + tile.row : a + tile.row * p.lda + tile.first;
}

template <class T> const T *b_of(const vgc_gemm_params &p, const Tile &tile)
{
    const T *b = at<const T>(p.b) + tile.batch * p.stride_b;
    return p.transpose_b ? b + tile.column * p.ldb + tile.first : b + tile.first * p.ldb + tile.column;
}

Transpose order(int32_t is_transposed)
{
    return is_transposed ? TRANSPOSED : AS_IS;
}

/* OpenBLAS multiplies NaN by a factor of zero, which means that the result is not read. */
template <class T> void clear(T *c, int64_t ldc, const Tile &tile)
{
    for (int64_t i = 0; i < tile.rows; i++)
        std::fill_n(c + i * ldc, tile.columns, T(0));
}

/* Adds alpha times the tile's product to beta times `c`. */
template <class T> void multiply(const vgc_gemm_params &p, const Tile &tile, T beta, T *c, int64_t ldc)
{
    if (beta == T(0)) {
        clear(c, ldc, tile);
        beta = T(1);
    }
    blas<T>().gemm(ROW_MAJOR, order(p.transpose_a), order(p.transpose_b), tile.rows, tile.columns, tile.terms,
                   static_cast<T>(p.alpha), a_of<T>(p, tile), p.lda, b_of<T>(p, tile), p.ldb, beta, c, ldc);
}

/* ---- halves --------------------------------------------------------------------------------------------------- */

void widen(const Half *from, int64_t ld, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[i * columns + j] = static_cast<float>(from[i * ld + j]);
}

/* Rounds sums of a tile to halves, with what was there. */
void round_tile(const vgc_gemm_params &p, const Tile &tile, const float *sums, int64_t ld)
{
    Half *c = at<Half>(p.c) + tile.batch * p.stride_c + tile.row * p.ldc + tile.column;
    auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    for (int64_t i = 0; i < tile.rows; i++)
        for (int64_t j = 0; j < tile.columns; j++) {
            float value = alpha * sums[i * ld + j];
            if (beta != 0)
                value += beta * static_cast<float>(c[i * p.ldc + j]);
            c[i * p.ldc + j] = static_cast<Half>(value);
        }
}

/* Adds a panel's product to sums in floats, or sets them. */
void multiply_halves(const vgc_gemm_params &p, const Tile &tile, float *memory, float *sums, int64_t ld, bool is_first)
{
    float *a = memory, *b = memory + tile.rows * tile.terms;
    int64_t a_rows = p.transpose_a ? tile.terms : tile.rows, a_columns = p.transpose_a ? tile.rows : tile.terms;
    int64_t b_rows = p.transpose_b ? tile.columns : tile.terms, b_columns = p.transpose_b ? tile.terms : tile.columns;
    widen(a_of<Half>(p, tile), p.lda, a_rows, a_columns, a);
    widen(b_of<Half>(p, tile), p.ldb, b_rows, b_columns, b);
    if (is_first)
        clear(sums, ld, tile);
    blas<float>().gemm(ROW_MAJOR, order(p.transpose_a), order(p.transpose_b), tile.rows, tile.columns, tile.terms, 1.0f,
                       a, std::max<int64_t>(a_columns, 1), b, std::max<int64_t>(b_columns, 1), 1.0f, sums, ld);
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

template <class T> void run_panel(const Step<T> &step, uint64_t block)
{
    const Call<T> &call = *step.call;
    const vgc_gemm_params &p = call.p;
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++) {
        Tile tile = tile_at(call, i, step.panel);
        T *c = at<T>(p.c) + tile.batch * p.stride_c + tile.row * p.ldc + tile.column;
        multiply(p, tile, step.panel == 0 ? static_cast<T>(p.beta) : T(1), c, p.ldc);
    }
}

template <> void run_panel<Half>(const Step<Half> &step, uint64_t block)
{
    const Call<Half> &call = *step.call;
    const vgc_gemm_params &p = call.p;
    Lease lease(call.scratch);
    auto *memory = reinterpret_cast<float *>(lease.memory());
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++) {
        Tile tile = tile_at(call, i, step.panel);
        float *sums = memory + (call.tile_m + call.tile_n) * call.panel;
        int64_t ld = tile.columns;
        if (call.sums != nullptr) {
            sums = call.sums + (tile.batch * p.m + tile.row) * p.n + tile.column;
            ld = p.n;
        }
        multiply_halves(p, tile, memory, sums, ld, step.panel == 0);
        if (step.panel == call.panels - 1)
            round_tile(p, tile, sums, ld);
    }
}

/* One panel of one tile, into memory of its own. */
template <class T> void run_part(const Call<T> &call, uint64_t block)
{
    const vgc_gemm_params &p = call.p;
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++) {
        auto panels = static_cast<uint64_t>(call.panels);
        auto panel = static_cast<int64_t>(i % panels);
        Tile tile = tile_at(call, i / panels, panel);
        if constexpr (std::is_same_v<T, Half>) {
            Lease lease(call.scratch);
            auto *memory = reinterpret_cast<float *>(lease.memory());
            float *sums = call.sums + ((panel * p.batch + tile.batch) * p.m + tile.row) * p.n + tile.column;
            multiply_halves(p, tile, memory, sums, p.n, true);
        } else {
            T *part = call.parts + ((panel * p.batch + tile.batch) * p.m + tile.row) * p.n + tile.column;
            multiply(p, tile, T(0), part, p.n);
        }
    }
}

/* Adds the panels' parts of one tile. */
template <class T> void run_add(const Call<T> &call, uint64_t index)
{
    const vgc_gemm_params &p = call.p;
    Tile tile = tile_at(call, index, 0);
    int64_t size = p.batch * p.m * p.n;
    auto *parts = reinterpret_cast<std::conditional_t<std::is_same_v<T, Half>, float, T> *>(call.parts);
    if constexpr (std::is_same_v<T, Half>)
        parts = call.sums;
    auto *sum = parts + (tile.batch * p.m + tile.row) * p.n + tile.column;
    for (int64_t panel = 1; panel < call.panels; panel++)
        for (int64_t i = 0; i < tile.rows; i++)
            for (int64_t j = 0; j < tile.columns; j++)
                sum[i * p.n + j] += sum[panel * size + i * p.n + j];
    if constexpr (std::is_same_v<T, Half>) {
        round_tile(p, tile, sum, p.n);
    } else {
        T *c = at<T>(p.c) + tile.batch * p.stride_c + tile.row * p.ldc + tile.column;
        auto beta = static_cast<T>(p.beta);
        for (int64_t i = 0; i < tile.rows; i++)
            for (int64_t j = 0; j < tile.columns; j++)
                c[i * p.ldc + j] = sum[i * p.n + j] + (beta == T(0) ? T(0) : beta * c[i * p.ldc + j]);
    }
}

/* ---- planning ------------------------------------------------------------------------------------------------- */

int64_t pieces(int64_t length, int64_t piece)
{
    return (length + piece - 1) / piece;
}

/* Chooses tiles: large ones, as packing operands costs less for them, but several for each thread. */
template <class T> void choose_tiles(Plan &plan, Call<T> &call)
{
    const vgc_gemm_params &p = call.p;
    int64_t edge = sizeof(T) == 2 ? 256 : 512;
    int64_t wanted = plan.pes() == 1 ? 1 : 4 * static_cast<int64_t>(plan.pes());
    while (edge > 64 && p.batch < wanted && pieces(p.m, edge) * pieces(p.n, edge) * p.batch < wanted)
        edge /= 2;
    call.tile_m = std::min(p.m, edge);
    call.tile_n = std::min(p.n, edge);
    if (call.tile_n < edge) // few columns: as many elements of a
        call.tile_m = std::min(p.m, edge * edge / std::max<int64_t>(call.tile_n, 16));
    if (call.tile_m < edge)
        call.tile_n = std::min(p.n, edge * edge / std::max<int64_t>(call.tile_m, 16));
    call.tiles_m = pieces(p.m, call.tile_m);
    call.tiles_n = pieces(p.n, call.tile_n);
}

/* Chooses panels so that a block of one tile takes half a millisecond or more. */
template <class T> void choose_panels(Call<T> &call)
{
    double term_ns = TERM_NS<T> * static_cast<double>(call.tile_m * call.tile_n);
    auto terms = static_cast<int64_t>(std::min(1.2e6 / term_ns, 1e9));
    call.panel = std::clamp<int64_t>(terms, PANEL, std::max<int64_t>(call.p.k, PANEL));
    call.panels = std::max<int64_t>(pieces(call.p.k, call.panel), 1);
    if (sizeof(T) == 2) { // operands of a panel are converted in scratch memory
        call.panel = std::min<int64_t>(call.panel, 1024);
        call.panels = std::max<int64_t>(pieces(call.p.k, call.panel), 1);
    }
    call.panel = std::max<int64_t>(pieces(call.p.k, call.panels), 1);
    call.panels = std::max<int64_t>(pieces(call.p.k, call.panel), 1);
}

template <class T> void plan_side_by_side(Plan &plan, Call<T> &call, double tile_ns)
{
    const vgc_gemm_params &p = call.p;
    auto tiles = static_cast<uint64_t>(p.batch * call.tiles_m * call.tiles_n);
    auto parts = static_cast<uint64_t>(call.panels * p.batch * p.m * p.n);
    if constexpr (std::is_same_v<T, Half>)
        call.sums = plan.take<float>(parts);
    else
        call.parts = plan.take<T>(parts);
    call.split = plan.split(tiles * static_cast<uint64_t>(call.panels), tile_ns);
    const Call<T> *kept = plan.keep(call);
    plan.add<run_part<T>>(call.split.blocks(), kept);
    plan.add<run_add<T>>(tiles, kept);
}

template <class T> void plan_in_turn(Plan &plan, Call<T> &call, double tile_ns)
{
    const vgc_gemm_params &p = call.p;
    if (sizeof(T) == 2 && call.panels > 1)
        call.sums = plan.take<float>(static_cast<uint64_t>(p.batch * p.m * p.n));
    call.split = plan.split(static_cast<uint64_t>(p.batch * call.tiles_m * call.tiles_n), tile_ns);
    const Call<T> *kept = plan.keep(call);
    for (int64_t panel = 0; panel < call.panels; panel++)
        plan.add<run_panel<T>>(call.split.blocks(), plan.keep(Step<T>{kept, panel}));
}

/* Makes panels longer until there are few enough for a list of steps. */
template <class T> void limit_panels(Call<T> &call)
{
    call.panel = pieces(call.p.k, MOST_STEPS);
    call.panels = pieces(call.p.k, call.panel);
}
} // namespace

template <class T> void plan_gemm(Plan &plan, const vgc_gemm_params &p)
{
    if (p.m == 0 || p.n == 0 || p.batch == 0)
        return;
    Call<T> call = {};
    call.p = p;
    if (p.alpha == 0)
        call.p.k = 0;
    double results = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.batch);
    plan.expect(results * (TERM_NS<T> * static_cast<double>(call.p.k) + 0.5) + 100.0 * static_cast<double>(p.batch));
    choose_tiles(plan, call);
    choose_panels(call);
    bool has_few_tiles = p.batch * call.tiles_m * call.tiles_n < 2 * static_cast<int64_t>(plan.pes());
    bool is_side_by_side = plan.pes() > 1 && call.panels > 1 && has_few_tiles;
    if (!is_side_by_side && call.panels > MOST_STEPS)
        limit_panels(call);
    if (is_side_by_side && call.panels > 16 * static_cast<int64_t>(plan.pes()) && sizeof(T) > 2) {
        call.panel = pieces(call.p.k, 16 * static_cast<int64_t>(plan.pes()));
        call.panels = pieces(call.p.k, call.panel);
    }
    double tile_ns =
        static_cast<double>(call.tile_m * call.tile_n) * (TERM_NS<T> * static_cast<double>(call.panel) + 0.3) + 200;
    if (sizeof(T) == 2)
        call.scratch =
            plan.scratch(static_cast<uint64_t>((call.tile_m + call.tile_n) * call.panel + call.tile_m * call.tile_n) *
                         sizeof(float));
    if (is_side_by_side)
        plan_side_by_side(plan, call, tile_ns);
    else
        plan_in_turn(plan, call, tile_ns);
}

template void plan_gemm<Half>(Plan &, const vgc_gemm_params &);
template void plan_gemm<float>(Plan &, const vgc_gemm_params &);
template void plan_gemm<double>(Plan &, const vgc_gemm_params &);

Planner gemm_planner(uint32_t, uint32_t type)
{
    switch (type) {
    case VGC_TYPE_F16:
        return [](Plan &plan, const void *params) {
            plan_gemm<Half>(plan, *static_cast<const vgc_gemm_params *>(params));
        };
    case VGC_TYPE_F32:
        return [](Plan &plan, const void *params) {
            plan_gemm<float>(plan, *static_cast<const vgc_gemm_params *>(params));
        };
    default:
        return [](Plan &plan, const void *params) {
            plan_gemm<double>(plan, *static_cast<const vgc_gemm_params *>(params));
        };
    }
}
} // namespace vgc
