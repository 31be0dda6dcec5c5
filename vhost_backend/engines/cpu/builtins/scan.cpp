// Running reductions along the rows of (outer, n).
//
// Rows are cut into chunks, and chunks into strands. A first step folds each strand; a second one has the fold of all
// strands before each; a third one runs through four strands at a time, so that the processor need not wait for sums.
#include "folds.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <bit>
#include <emmintrin.h>

namespace vgc
{
namespace
{
constexpr uint64_t STRAND = 2048;
constexpr uint64_t SIDE_BY_SIDE = 4;
constexpr uint64_t PAST_BYTES = 16 << 20; /* results of more are not found in the caches later */

template <class Fold> struct Call {
    vgc_scan_params p;
    uint64_t strands;           /* of a row */
    Split split;                /* of the strands of a row, or of rows where these have one strand */
    uint64_t chunks;            /* of a row */
    bool is_past;               /* results are written past the caches */
    typename Fold::Acc *before; /* (outer, strands): fold of a strand, then of all before it */
};

template <class Fold, class T> typename Fold::Acc fold_strand(const T *x, uint64_t n)
{
    constexpr uint64_t LANES = 16;
    typename Fold::Acc lanes[LANES];
    std::fill_n(lanes, LANES, typename Fold::Acc(Fold::neutral));
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint64_t j = 0; j < LANES; j++)
            lanes[j] = Fold::fold(lanes[j], Fold::load(x[i + j]));
    for (; i < n; i++)
        lanes[0] = Fold::fold(lanes[0], Fold::load(x[i]));
    for (uint64_t j = 1; j < LANES; j++)
        lanes[0] = Fold::fold(lanes[0], lanes[j]);
    return lanes[0];
}

/* Runs through some elements; the fold of all up to the end. */
template <class Fold, class T>
typename Fold::Acc run_through(const T *x, typename Fold::Out *out, uint64_t n, bool exclusive, typename Fold::Acc acc)
{
    for (uint64_t i = 0; i < n; i++) {
        typename Fold::Acc next = Fold::fold(acc, Fold::load(x[i]));
        out[i] = static_cast<typename Fold::Out>(exclusive ? acc : next);
        acc = next;
    }
    return acc;
}

/* Writes past the caches, which read a line before it is written: what is written is too much for them. */
template <class Out> void write_past(Out *to, Out value)
{
    if constexpr (sizeof(Out) == 8)
        _mm_stream_si64(reinterpret_cast<long long *>(to), std::bit_cast<long long>(value));
    else
        _mm_stream_si32(reinterpret_cast<int *>(to), std::bit_cast<int>(value));
}

/* Runs through several whole strands at once. */
template <class Fold, class T, bool is_past>
void run_through_four(const T *x, typename Fold::Out *out, bool exclusive, const typename Fold::Acc *before)
{
    typename Fold::Acc acc[SIDE_BY_SIDE];
    std::copy_n(before, SIDE_BY_SIDE, acc);
    for (uint64_t i = 0; i < STRAND; i++)
        for (uint64_t j = 0; j < SIDE_BY_SIDE; j++) {
            typename Fold::Acc next = Fold::fold(acc[j], Fold::load(x[j * STRAND + i]));
            auto value = static_cast<typename Fold::Out>(exclusive ? acc[j] : next);
            if constexpr (is_past)
                write_past(out + j * STRAND + i, value);
            else
                out[j * STRAND + i] = value;
            acc[j] = next;
        }
}

template <class Fold, class T> void scan_rows(const Call<Fold> &call, uint64_t block)
{
    auto n = static_cast<uint64_t>(call.p.n);
    for (uint64_t row = call.split.begin(block); row < call.split.end(block); row++)
        run_through<Fold>(at<const T>(call.p.in) + row * n, at<typename Fold::Out>(call.p.out) + row * n, n,
                          call.p.exclusive != 0, Fold::neutral);
}

template <class Fold, class T> void fold_strands(const Call<Fold> &call, uint64_t block)
{
    uint64_t row = block / call.chunks, chunk = block % call.chunks;
    auto n = static_cast<uint64_t>(call.p.n);
    const T *x = at<const T>(call.p.in) + row * n;
    for (uint64_t i = call.split.begin(chunk); i < call.split.end(chunk); i++)
        call.before[row * call.strands + i] = fold_strand<Fold>(x + i * STRAND, std::min(STRAND, n - i * STRAND));
}

template <class Fold> void fold_before(const Call<Fold> &call, uint64_t row)
{
    typename Fold::Acc acc = Fold::neutral, *before = call.before + row * call.strands;
    for (uint64_t i = 0; i < call.strands; i++) {
        typename Fold::Acc next = Fold::fold(acc, before[i]);
        before[i] = acc;
        acc = next;
    }
}

template <class Fold, class T> void scan_strands(const Call<Fold> &call, uint64_t block)
{
    uint64_t row = block / call.chunks, chunk = block % call.chunks;
    auto n = static_cast<uint64_t>(call.p.n);
    const T *x = at<const T>(call.p.in) + row * n;
    auto *out = at<typename Fold::Out>(call.p.out) + row * n;
    bool exclusive = call.p.exclusive != 0;
    const typename Fold::Acc *before = call.before + row * call.strands;
    uint64_t i = call.split.begin(chunk), end = call.split.end(chunk);
    for (; i + SIDE_BY_SIDE <= end && (i + SIDE_BY_SIDE) * STRAND <= n; i += SIDE_BY_SIDE)
        if (call.is_past)
            run_through_four<Fold, T, true>(x + i * STRAND, out + i * STRAND, exclusive, before + i);
        else
            run_through_four<Fold, T, false>(x + i * STRAND, out + i * STRAND, exclusive, before + i);
    _mm_sfence();
    for (; i < end; i++)
        run_through<Fold>(x + i * STRAND, out + i * STRAND, std::min(STRAND, n - i * STRAND), exclusive, before[i]);
}

template <class Fold, class T> void plan_scan(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_scan_params *>(params);
    if (p.outer == 0 || p.n == 0)
        return;
    constexpr double ELEMENT_NS = 1.0;
    auto outer = static_cast<uint64_t>(p.outer), n = static_cast<uint64_t>(p.n);
    plan.expect(ELEMENT_NS * static_cast<double>(outer) * static_cast<double>(n));
    bool is_past = p.in != p.out && outer * n > PAST_BYTES / sizeof(typename Fold::Out);
    Call<Fold> call = {p, (n + STRAND - 1) / STRAND, {}, 1, is_past, nullptr};
    if (call.strands <= 4 * SIDE_BY_SIDE) {
        call.split = plan.split(outer, ELEMENT_NS * static_cast<double>(n));
        plan.add<scan_rows<Fold, T>>(call.split.blocks(), plan.keep(call));
        return;
    }
    call.split = plan.split(call.strands, STRAND * ELEMENT_NS / 2, SIDE_BY_SIDE);
    call.chunks = call.split.blocks();
    call.before = plan.take<typename Fold::Acc>(outer * call.strands);
    auto *kept = plan.keep(call);
    plan.add<fold_strands<Fold, T>>(outer * call.chunks, kept);
    plan.add<fold_before<Fold>>(outer, kept);
    plan.add<scan_strands<Fold, T>>(outer * call.chunks, kept);
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
