// Counting: threads count in tables of their own, which are added up; in one table with atomics if there are many bins.
#include "planners.h"
#include "read_once.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cmath>
#include <cstring>

namespace vgc
{
namespace
{
constexpr int64_t MOST_OWN_BINS = 1 << 16;
constexpr double ELEMENT_NS = 4;
constexpr const char *NO_BIN = "an element of in is negative, or bins or more";

/* Bin of an element among bins of equal width, as numpy.histogram() finds it; -1: it is in no bin. */
struct Bins {
    int64_t bins;
    double low, high, step;

    double edge(int64_t i) const
    {
        return i == bins ? high : static_cast<double>(i) * step + low;
    }
    template <class T> int64_t operator()(T element) const
    {
        auto x = static_cast<double>(element);
        if (!(x >= low && x <= high))
            return -1;
        auto i = static_cast<int64_t>((x - low) / (high - low) * static_cast<double>(bins));
        i = std::clamp<int64_t>(i, 0, bins - 1);
        if (x < edge(i))
            return i > 0 ? i - 1 : 0;
        return x >= edge(i + 1) && i != bins - 1 ? i + 1 : i;
    }
};

/* Bin of an element that is its number. */
struct Numbers {
    int64_t bins;

    template <class T> int64_t operator()(T element) const
    {
        return static_cast<uint64_t>(element) < static_cast<uint64_t>(bins) ? static_cast<int64_t>(element) : -1;
    }
};

template <class T, class Find> struct Call {
    const T *in;
    int64_t *counts;
    Find find;
    bool must_find;
    Head *head;
    Split split;
    Split bins;     /* for clearing and adding tables */
    Scratch tables; /* not there with many bins */
};

template <class T, class Find> void clear(const Call<T, Find> &call, uint64_t block)
{
    uint64_t begin = call.bins.begin(block), end = call.bins.end(block);
    std::fill(call.counts + begin, call.counts + end, 0);
    for (uint32_t i = 0; i < call.tables.pieces; i++) {
        auto *table = reinterpret_cast<int64_t *>(call.tables.memory + i * call.tables.bytes);
        std::fill(table + begin, table + end, 0);
    }
}

template <class T, class Find> void count(const Call<T, Find> &call, uint64_t block)
{
    bool is_lost = false;
    uint64_t begin = call.split.begin(block), end = call.split.end(block);
    if (call.tables.pieces == 0) {
        for (uint64_t i = begin; i < end; i++) {
            int64_t bin = call.find(read_once(&call.in[i]));
            if (bin >= 0)
                __atomic_fetch_add(&call.counts[bin], 1, __ATOMIC_RELAXED);
            is_lost |= bin < 0;
        }
    } else {
        Lease lease(call.tables);
        auto *table = reinterpret_cast<int64_t *>(lease.memory());
        for (uint64_t i = begin; i < end; i++) {
            int64_t bin = call.find(read_once(&call.in[i]));
            if (bin >= 0)
                table[bin]++;
            is_lost |= bin < 0;
        }
    }
    if (is_lost && call.must_find)
        fail(call.head, NO_BIN);
}

template <class T, class Find> void add_tables(const Call<T, Find> &call, uint64_t block)
{
    for (uint32_t i = 0; i < call.tables.pieces; i++) {
        auto *table = reinterpret_cast<const int64_t *>(call.tables.memory + i * call.tables.bytes);
        for (uint64_t bin = call.bins.begin(block); bin < call.bins.end(block); bin++)
            call.counts[bin] += table[bin];
    }
}

template <class T, class Find> void plan_count(Plan &plan, Call<T, Find> &call, int64_t n)
{
    auto elements = static_cast<uint64_t>(n), bins = static_cast<uint64_t>(call.find.bins);
    plan.expect(ELEMENT_NS * static_cast<double>(elements) + static_cast<double>(bins));
    call.head = plan.head();
    call.split = plan.split(elements, ELEMENT_NS);
    call.bins = plan.split(bins, 0.3 * plan.pes());
    bool has_tables = call.split.blocks() > 1 && call.find.bins <= MOST_OWN_BINS;
    if (has_tables)
        call.tables = plan.scratch(bins * sizeof(int64_t));
    auto *kept = plan.keep(call);
    plan.add<clear<T, Find>>(call.bins.blocks(), kept);
    plan.add<count<T, Find>>(call.split.blocks(), kept);
    if (call.tables.pieces > 0 && elements > 0)
        plan.add<add_tables<T, Find>>(call.bins.blocks(), kept);
}

template <class T> void plan_histogram(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_histogram_params *>(params);
    Call<T, Bins> call = {};
    call.in = at<const T>(p.in);
    call.counts = at<int64_t>(p.counts);
    call.find = {p.bins, p.low, p.high, (p.high - p.low) / static_cast<double>(p.bins)};
    plan_count(plan, call, p.n);
}

template <class T> void plan_bincount(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_bincount_params *>(params);
    Call<T, Numbers> call = {};
    call.in = at<const T>(p.in);
    call.counts = at<int64_t>(p.counts);
    call.find = {p.bins};
    call.must_find = true;
    plan_count(plan, call, p.n);
}

template <class T> struct HistogramOf {
    static constexpr Planner plan = plan_histogram<T>;
};
template <class T> struct BincountOf {
    static constexpr Planner plan = plan_bincount<T>;
};
} // namespace

Planner count_planner(uint32_t function, uint32_t type)
{
    return function == VGC_FN_HISTOGRAM ? number_planner<HistogramOf>(type) : number_planner<BincountOf>(type);
}
} // namespace vgc
