// Reductions along one axis of (outer, n, inner).
//
// A block folds a piece of the axis for some of the results. If there are too few results for all threads, the axis is
// cut into several pieces, whose results a second step folds.
#include "folds.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cmath>

namespace vgc
{
namespace
{
constexpr uint64_t LANES = 16;
constexpr uint64_t LEAF = 256; /* elements that are added without regard to roundings */
constexpr uint64_t TILE = 256; /* results that are folded side by side */

/* Folds a leaf of adjacent elements in lanes, which become vectors. */
template <class Fold, class T> typename Fold::Acc fold_leaf(const T *x, uint64_t n)
{
    using Acc = typename Fold::Acc;
    Acc lanes[LANES];
    std::fill_n(lanes, LANES, Acc(Fold::neutral));
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint64_t j = 0; j < LANES; j++)
            lanes[j] = Fold::fold(lanes[j], Fold::load(x[i + j]));
    for (uint64_t j = 0; i + j < n; j++)
        lanes[j] = Fold::fold(lanes[j], Fold::load(x[i + j]));
    for (uint64_t width = LANES / 2; width > 0; width /= 2)
        for (uint64_t j = 0; j < width; j++)
            lanes[j] = Fold::fold(lanes[j], lanes[j + width]);
    return lanes[0];
}

/* Folds halves of a row, and those alike: roundings grow with the logarithm of its length. */
template <class Fold, class T> typename Fold::Acc fold_row(const T *x, uint64_t n)
{
    if (n <= LEAF)
        return fold_leaf<Fold>(x, n);
    uint64_t half = n / 2 / LANES * LANES;
    return Fold::fold(fold_row<Fold>(x, half), fold_row<Fold>(x + half, n - half));
}

/* Folds the columns of `n` rows that lie `stride` elements apart, for at most TILE columns. */
template <class Fold, class T>
void fold_columns(const T *x, uint64_t n, uint64_t stride, uint64_t columns, typename Fold::Acc *result)
{
    using Acc = typename Fold::Acc;
    Acc leaf[TILE];
    std::fill_n(result, columns, Acc(Fold::neutral));
    for (uint64_t begin = 0; begin < n; begin += LEAF) {
        std::fill_n(leaf, columns, Acc(Fold::neutral));
        for (uint64_t i = begin; i < std::min(n, begin + LEAF); i++)
            for (uint64_t j = 0; j < columns; j++)
                leaf[j] = Fold::fold(leaf[j], Fold::load(x[i * stride + j]));
        for (uint64_t j = 0; j < columns; j++)
            result[j] = Fold::fold(result[j], leaf[j]);
    }
}

/* ---- sums, products, extremes ---------------------------------------------------------------------------------- */

/* Cuts of a call: `groups` of results, and pieces of the axis. */
struct Cuts {
    uint64_t outer, n, inner;
    uint64_t tiles; /* for each of outer, with up to TILE results each */
    Split groups;   /* of outer * tiles */
    Split pieces;   /* of n */
};

/* Some results that are folded together. */
struct Group {
    uint64_t row, column, columns;
};

Group group_at(const Cuts &cuts, uint64_t index)
{
    uint64_t column = index % cuts.tiles * TILE;
    return {index / cuts.tiles, column, std::min(TILE, cuts.inner - column)};
}

Cuts cut(Plan &plan, const vgc_reduce_params &p, double element_ns)
{
    Cuts cuts = {};
    cuts.outer = static_cast<uint64_t>(p.outer);
    cuts.n = static_cast<uint64_t>(p.n);
    cuts.inner = static_cast<uint64_t>(p.inner);
    cuts.tiles = (cuts.inner + TILE - 1) / TILE;
    double group_ns = element_ns * static_cast<double>(std::min(cuts.inner, TILE)) * static_cast<double>(cuts.n) + 5;
    plan.expect(group_ns * static_cast<double>(cuts.outer * cuts.tiles));
    cuts.groups = plan.split(cuts.outer * cuts.tiles, group_ns);
    cuts.pieces = {cuts.n, std::max<uint64_t>(cuts.n, 1)};
    if (plan.pes() > 1 && cuts.groups.items < 4 * plan.pes())
        cuts.pieces = plan.split(cuts.n, element_ns * static_cast<double>(std::min(cuts.inner, TILE)), LEAF);
    return cuts;
}

uint64_t blocks_of(const Cuts &cuts)
{
    return cuts.groups.blocks() * std::max<uint64_t>(cuts.pieces.blocks(), 1);
}

template <class Fold> struct Call {
    vgc_reduce_params p;
    Cuts cuts;
    typename Fold::Acc *parts; /* (pieces, outer, inner), if there are several pieces; else null */
};

template <class Fold, class T> void run_reduce(const Call<Fold> &call, uint64_t block)
{
    using Acc = typename Fold::Acc;
    const Cuts &cuts = call.cuts;
    uint64_t piece = block / cuts.groups.blocks(), groups = block % cuts.groups.blocks();
    uint64_t first = cuts.pieces.begin(piece), n = cuts.pieces.end(piece) - first;
    for (uint64_t i = cuts.groups.begin(groups); i < cuts.groups.end(groups); i++) {
        Group group = group_at(cuts, i);
        Acc result[TILE];
        const T *x = at<const T>(call.p.in) + (group.row * cuts.n + first) * cuts.inner + group.column;
        if (cuts.inner == 1)
            result[0] = fold_row<Fold>(x, n);
        else
            fold_columns<Fold>(x, n, cuts.inner, group.columns, result);
        uint64_t to = group.row * cuts.inner + group.column;
        if (call.parts != nullptr)
            std::copy_n(result, group.columns, call.parts + piece * cuts.outer * cuts.inner + to);
        else
            for (uint64_t j = 0; j < group.columns; j++)
                at<typename Fold::Out>(call.p.out)[to + j] = static_cast<typename Fold::Out>(result[j]);
    }
}

template <class Fold> void fold_parts(const Call<Fold> &call, uint64_t block)
{
    const Cuts &cuts = call.cuts;
    for (uint64_t i = cuts.groups.begin(block); i < cuts.groups.end(block); i++) {
        Group group = group_at(cuts, i);
        for (uint64_t j = 0; j < group.columns; j++) {
            uint64_t to = group.row * cuts.inner + group.column + j;
            typename Fold::Acc result = Fold::neutral;
            for (uint64_t piece = 0; piece < cuts.pieces.blocks(); piece++)
                result = Fold::fold(result, call.parts[piece * cuts.outer * cuts.inner + to]);
            at<typename Fold::Out>(call.p.out)[to] = static_cast<typename Fold::Out>(result);
        }
    }
}

template <class Fold, class T> void plan_reduce(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_reduce_params *>(params);
    if (p.outer == 0 || p.inner == 0)
        return;
    Call<Fold> call = {p, cut(plan, p, 0.2), nullptr};
    uint64_t pieces = call.cuts.pieces.blocks();
    if (pieces > 1)
        call.parts = plan.take<typename Fold::Acc>(pieces * call.cuts.outer * call.cuts.inner);
    auto *kept = plan.keep(call);
    plan.add<run_reduce<Fold, T>>(blocks_of(call.cuts), kept);
    if (pieces > 1)
        plan.add<fold_parts<Fold>>(call.cuts.groups.blocks(), kept);
}

/* ---- positions ------------------------------------------------------------------------------------------------ */

template <class T> struct Place {
    T value;
    int64_t index;
};

/* NaN comes before all numbers, and of equal elements the first. */
template <class Fold, class T> bool replaces(T value, T best)
{
    return best == best && (Fold::comes_before(value, best) || value != value);
}

/* Position of the best of adjacent elements: of the best leaf, then in it. */
template <class Fold, class T> Place<T> find_in_row(const T *x, uint64_t n)
{
    Place<T> best = {x[0], 0};
    uint64_t best_leaf = 0;
    for (uint64_t begin = 0; begin < n; begin += 4 * LEAF) {
        T value = fold_leaf<Fold>(x + begin, std::min(4 * LEAF, n - begin));
        if (begin == 0 || replaces<Fold>(value, best.value)) {
            best.value = value;
            best_leaf = begin;
        }
    }
    uint64_t i = best_leaf;
    while (i + 1 < n && x[i] != best.value && (x[i] == x[i] || best.value == best.value))
        i++;
    return {x[i], static_cast<int64_t>(i)};
}

template <class Fold, class T>
void find_in_columns(const T *x, uint64_t n, uint64_t stride, uint64_t columns, Place<T> *best)
{
    T values[TILE];
    int64_t indices[TILE] = {};
    std::copy_n(x, columns, values);
    for (uint64_t i = 1; i < n; i++)
        for (uint64_t j = 0; j < columns; j++)
            if (replaces<Fold>(x[i * stride + j], values[j])) {
                values[j] = x[i * stride + j];
                indices[j] = static_cast<int64_t>(i);
            }
    for (uint64_t j = 0; j < columns; j++)
        best[j] = {values[j], indices[j]};
}

template <class T> struct PlaceCall {
    vgc_reduce_params p;
    Cuts cuts;
    Place<T> *parts; /* (pieces, outer, inner), if there are several pieces; else null */
};

template <class Fold, class T> void run_find(const PlaceCall<T> &call, uint64_t block)
{
    const Cuts &cuts = call.cuts;
    uint64_t piece = block / cuts.groups.blocks(), groups = block % cuts.groups.blocks();
    uint64_t first = cuts.pieces.begin(piece), n = cuts.pieces.end(piece) - first;
    for (uint64_t i = cuts.groups.begin(groups); i < cuts.groups.end(groups); i++) {
        Group group = group_at(cuts, i);
        Place<T> best[TILE];
        const T *x = at<const T>(call.p.in) + (group.row * cuts.n + first) * cuts.inner + group.column;
        if (cuts.inner == 1)
            best[0] = find_in_row<Fold>(x, n);
        else
            find_in_columns<Fold>(x, n, cuts.inner, group.columns, best);
        uint64_t to = group.row * cuts.inner + group.column;
        for (uint64_t j = 0; j < group.columns; j++)
            if (call.parts != nullptr)
                call.parts[piece * cuts.outer * cuts.inner + to + j] = {best[j].value,
                                                                        best[j].index + static_cast<int64_t>(first)};
            else
                at<int64_t>(call.p.out)[to + j] = best[j].index;
    }
}

template <class Fold, class T> void choose_place(const PlaceCall<T> &call, uint64_t block)
{
    const Cuts &cuts = call.cuts;
    for (uint64_t i = cuts.groups.begin(block); i < cuts.groups.end(block); i++) {
        Group group = group_at(cuts, i);
        for (uint64_t j = 0; j < group.columns; j++) {
            uint64_t to = group.row * cuts.inner + group.column + j;
            Place<T> best = call.parts[to];
            for (uint64_t piece = 1; piece < cuts.pieces.blocks(); piece++) {
                Place<T> other = call.parts[piece * cuts.outer * cuts.inner + to];
                if (replaces<Fold>(other.value, best.value))
                    best = other;
            }
            at<int64_t>(call.p.out)[to] = best.index;
        }
    }
}

template <class Fold, class T> void plan_find(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_reduce_params *>(params);
    if (p.outer == 0 || p.inner == 0)
        return;
    PlaceCall<T> call = {p, cut(plan, p, 0.4), nullptr};
    uint64_t pieces = call.cuts.pieces.blocks();
    if (pieces > 1)
        call.parts = plan.take<Place<T>>(pieces * call.cuts.outer * call.cuts.inner);
    auto *kept = plan.keep(call);
    plan.add<run_find<Fold, T>>(blocks_of(call.cuts), kept);
    if (pieces > 1)
        plan.add<choose_place<Fold, T>>(call.cuts.groups.blocks(), kept);
}

template <class T> struct SumOf {
    static constexpr Planner plan = plan_reduce<Sum<T>, T>;
};
template <class T> struct ProductOf {
    static constexpr Planner plan = plan_reduce<Product<T>, T>;
};
template <class T> struct LeastOf {
    static constexpr Planner plan = plan_reduce<Least<T>, T>;
};
template <class T> struct GreatestOf {
    static constexpr Planner plan = plan_reduce<Greatest<T>, T>;
};
template <class T> struct PlaceOfLeast {
    static constexpr Planner plan = plan_find<Least<T>, T>;
};
template <class T> struct PlaceOfGreatest {
    static constexpr Planner plan = plan_find<Greatest<T>, T>;
};

/* Functions of truth values. */
Planner truth_planner(uint32_t function)
{
    switch (function) {
    case VGC_FN_SUM:
        return SumOf<Bool>::plan;
    case VGC_FN_MIN:
        return LeastOf<Bool>::plan;
    default:
        return GreatestOf<Bool>::plan;
    }
}
} // namespace

Planner reduce_planner(uint32_t function, uint32_t type)
{
    if (type == VGC_TYPE_B8)
        return truth_planner(function);
    switch (function) {
    case VGC_FN_SUM:
        return number_planner<SumOf>(type);
    case VGC_FN_PROD:
        return number_planner<ProductOf>(type);
    case VGC_FN_MIN:
        return number_planner<LeastOf>(type);
    case VGC_FN_MAX:
        return number_planner<GreatestOf>(type);
    case VGC_FN_ARGMIN:
        return number_planner<PlaceOfLeast>(type);
    default:
        return number_planner<PlaceOfGreatest>(type);
    }
}
} // namespace vgc
