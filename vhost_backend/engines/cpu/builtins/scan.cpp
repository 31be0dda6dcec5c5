// Running reductions along the rows of (outer, n).
//
// Elements are taken a vector at a time: folds within the vector come from a few folds of the vector with itself,
// shifted, and the fold of all before it is one more. So the processor waits for one fold in each vector only. Where
// there are rows for all threads, blocks take whole rows. Otherwise rows are cut into chunks: a first step folds each
// chunk, a second one has the fold of all chunks before each, and a third one runs through them.
#include "folds.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <bit>
#include <cstring>
#include <emmintrin.h>
#include <utility>

namespace vgc
{
namespace
{
constexpr double ELEMENT_NS = 0.5;
constexpr uint64_t LONGEST_ROW = 1 << 24; /* of which a block may take all */
constexpr uint64_t PAST_BYTES = 16 << 20; /* results of more are not found in the caches later */

template <class Fold> struct Call {
    vgc_scan_params p;
    Split split;                /* of rows, or of the elements of a row into chunks */
    uint64_t chunks;            /* of a row */
    bool is_past;               /* results are written past the caches */
    typename Fold::Acc *before; /* (outer, chunks): fold of a chunk, then of all before it */
};

/* ---- vectors -------------------------------------------------------------------------------------------------- */

template <class Acc> struct Vector {
    static constexpr size_t LANES = 64 / sizeof(Acc);
    typedef Acc Type __attribute__((vector_size(64)));

    static Type filled(Acc value)
    {
        return value - Type{};
    }
    /* The vector `by` lanes further up; lanes below are those of `filling`. */
    template <size_t by, size_t... LANE> static Type shifted(Type vector, Type filling, std::index_sequence<LANE...>)
    {
        return __builtin_shufflevector(filling, vector, (LANE < by ? int(LANE) : int(LANES + LANE - by))...);
    }
    template <size_t by> static Type shifted(Type vector, Acc filling)
    {
        return shifted<by>(vector, filled(filling), std::make_index_sequence<LANES>());
    }
};

/* Folds of the lanes up to each lane. */
template <class Fold, size_t by = 1, class Type> Type fold_within(Type vector)
{
    using Lanes = Vector<typename Fold::Acc>;
    if constexpr (by == Lanes::LANES)
        return vector;
    else
        return fold_within<Fold, 2 * by>(Fold::fold(Lanes::template shifted<by>(vector, Fold::neutral), vector));
}

/* Writes past the caches, which read a line before it is written: what is written is too much for them. */
template <class Out> void write_past(Out *to, Out value)
{
    if constexpr (sizeof(Out) == 8)
        _mm_stream_si64(reinterpret_cast<long long *>(to), std::bit_cast<long long>(value));
    else
        _mm_stream_si32(reinterpret_cast<int *>(to), std::bit_cast<int>(value));
}

template <bool is_past, class Out, class Type> void write(Type vector, Out *to)
{
    for (size_t j = 0; j < sizeof(Type) / sizeof(vector[0]); j++)
        if constexpr (is_past)
            write_past(to + j, static_cast<Out>(vector[j]));
        else
            to[j] = static_cast<Out>(vector[j]);
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

template <class Fold, class T> typename Fold::Acc fold_elements(const T *x, uint64_t n)
{
    constexpr uint64_t LANES = 16;
    typename Fold::Acc lanes[LANES];
    std::fill_n(lanes, LANES, typename Fold::Acc(Fold::neutral));
    uint64_t whole = n - n % LANES;
    for (uint64_t i = 0; i < whole; i += LANES)
        for (uint64_t j = 0; j < LANES; j++)
            lanes[j] = Fold::fold(lanes[j], Fold::load(x[i + j]));
    for (uint64_t i = whole; i < n; i++)
        lanes[0] = Fold::fold(lanes[0], Fold::load(x[i]));
    for (uint64_t j = 1; j < LANES; j++)
        lanes[0] = Fold::fold(lanes[0], lanes[j]);
    return lanes[0];
}

/* Runs through elements, of which `acc` is the fold of all before. */
template <class Fold, bool is_past, class T>
void run_through(const T *x, typename Fold::Out *out, uint64_t n, bool exclusive, typename Fold::Acc acc)
{
    using Acc = typename Fold::Acc;
    using Lanes = Vector<Acc>;
    uint64_t whole = n - n % Lanes::LANES;
    for (uint64_t i = 0; i < whole; i += Lanes::LANES) {
        typename Lanes::Type loaded;
        for (uint64_t j = 0; j < Lanes::LANES; j++)
            loaded[j] = Fold::load(x[i + j]);
        typename Lanes::Type folds = fold_within<Fold>(loaded);
        typename Lanes::Type shown = exclusive ? Lanes::template shifted<1>(folds, Fold::neutral) : folds;
        write<is_past>(Fold::fold(Lanes::filled(acc), shown), out + i);
        acc = Fold::fold(acc, Acc(folds[Lanes::LANES - 1]));
    }
    for (uint64_t i = whole; i < n; i++) {
        Acc next = Fold::fold(acc, Fold::load(x[i]));
        out[i] = static_cast<typename Fold::Out>(exclusive ? acc : next);
        acc = next;
    }
}

template <class Fold, class T>
void run_through(const Call<Fold> &call, uint64_t begin, uint64_t n, typename Fold::Acc acc)
{
    const T *x = at<const T>(call.p.in) + begin;
    auto *out = at<typename Fold::Out>(call.p.out) + begin;
    if (call.is_past)
        run_through<Fold, true>(x, out, n, call.p.exclusive != 0, acc);
    else
        run_through<Fold, false>(x, out, n, call.p.exclusive != 0, acc);
    _mm_sfence();
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

template <class Fold, class T> void scan_rows(const Call<Fold> &call, uint64_t block)
{
    auto n = static_cast<uint64_t>(call.p.n);
    for (uint64_t row = call.split.begin(block); row < call.split.end(block); row++)
        run_through<Fold, T>(call, row * n, n, Fold::neutral);
}

template <class Fold, class T> void fold_chunk(const Call<Fold> &call, uint64_t block)
{
    uint64_t row = block / call.chunks, chunk = block % call.chunks, begin = call.split.begin(chunk);
    const T *x = at<const T>(call.p.in) + row * static_cast<uint64_t>(call.p.n);
    call.before[block] = fold_elements<Fold>(x + begin, call.split.end(chunk) - begin);
}

template <class Fold> void fold_before(const Call<Fold> &call, uint64_t row)
{
    typename Fold::Acc acc = Fold::neutral, *before = call.before + row * call.chunks;
    for (uint64_t i = 0; i < call.chunks; i++) {
        typename Fold::Acc next = Fold::fold(acc, before[i]);
        before[i] = acc;
        acc = next;
    }
}

template <class Fold, class T> void scan_chunk(const Call<Fold> &call, uint64_t block)
{
    uint64_t row = block / call.chunks, chunk = block % call.chunks, begin = call.split.begin(chunk);
    uint64_t first = row * static_cast<uint64_t>(call.p.n);
    run_through<Fold, T>(call, first + begin, call.split.end(chunk) - begin, call.before[block]);
}

/* ---- planning ------------------------------------------------------------------------------------------------- */

/* Whether blocks that take whole rows keep all threads busy, and end soon. */
bool has_rows_for_all(const Plan &plan, const Split &rows, uint64_t n)
{
    return n <= LONGEST_ROW && (rows.blocks() % plan.pes() == 0 || rows.blocks() >= 4 * plan.pes());
}

template <class Fold, class T> void plan_scan(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_scan_params *>(params);
    if (p.outer == 0 || p.n == 0)
        return;
    auto outer = static_cast<uint64_t>(p.outer), n = static_cast<uint64_t>(p.n);
    plan.expect(ELEMENT_NS * static_cast<double>(outer) * static_cast<double>(n));
    bool is_past = p.in != p.out && outer * n > PAST_BYTES / sizeof(typename Fold::Out);
    Call<Fold> call = {p, plan.split(outer, ELEMENT_NS * static_cast<double>(n)), 1, is_past, nullptr};
    Split chunks = plan.split(n, ELEMENT_NS);
    if (chunks.blocks() == 1 || has_rows_for_all(plan, call.split, n)) {
        plan.add<scan_rows<Fold, T>>(call.split.blocks(), plan.keep(call));
        return;
    }
    call.split = chunks;
    call.chunks = chunks.blocks();
    call.before = plan.take<typename Fold::Acc>(outer * call.chunks);
    auto *kept = plan.keep(call);
    plan.add<fold_chunk<Fold, T>>(outer * call.chunks, kept);
    plan.add<fold_before<Fold>>(outer, kept);
    plan.add<scan_chunk<Fold, T>>(outer * call.chunks, kept);
}

template <class T> struct SumOf {
    static constexpr Planner plan = plan_scan<Sum<T>, T>;
};
template <class T> struct ProductOf {
    static constexpr Planner plan = plan_scan<Product<T>, T>;
};
template <class T> struct LeastOf {
    static constexpr Planner plan = plan_scan<Least<T>, T>;
};
template <class T> struct GreatestOf {
    static constexpr Planner plan = plan_scan<Greatest<T>, T>;
};
} // namespace

Planner scan_planner(uint32_t function, uint32_t type)
{
    switch (function) {
    case VGC_FN_SCAN_SUM:
        return number_planner<SumOf>(type);
    case VGC_FN_SCAN_PROD:
        return number_planner<ProductOf>(type);
    case VGC_FN_SCAN_MIN:
        return number_planner<LeastOf>(type);
    default:
        return number_planner<GreatestOf>(type);
    }
}
} // namespace vgc
