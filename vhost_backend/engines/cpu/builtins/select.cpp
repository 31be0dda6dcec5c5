// Choosing elements.
#include "bools.h"
#include "planners.h"
#include "read_once.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cstring>

namespace vgc
{
namespace
{
/* ---- positions of what is true ---------------------------------------------------------------------------------- */

struct NonzeroCall {
    vgc_nonzero_params p;
    Split split;
    uint64_t *counts; /* elements of a block that are true, then of all blocks before it */
};

void count_true(const NonzeroCall &call, uint64_t block)
{
    const Bool *in = at<const Bool>(call.p.in);
    uint64_t count = 0;
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++)
        count += truth(in[i]);
    call.counts[block] = count;
}

void add_up(const NonzeroCall &call, uint64_t)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i < call.split.blocks(); i++) {
        uint64_t count = call.counts[i];
        call.counts[i] = before;
        before += count;
    }
    *at<int64_t>(call.p.count) = static_cast<int64_t>(before);
}

/* Stays in its memory even if elements have become true since they were counted: no more are counted before a block
 * than there are elements before it. */
void write_positions(const NonzeroCall &call, uint64_t block)
{
    const Bool *in = at<const Bool>(call.p.in);
    int64_t *out = at<int64_t>(call.p.out) + call.counts[block];
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++)
        if (truth(read_once(in + i)))
            *out++ = static_cast<int64_t>(i);
}

void plan_nonzero(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_nonzero_params *>(params);
    constexpr double NS = 1;
    NonzeroCall call = {p, {}, nullptr};
    plan.expect(NS * static_cast<double>(p.n));
    call.split = plan.split(static_cast<uint64_t>(p.n), NS);
    call.counts = plan.take<uint64_t>(call.split.blocks());
    const NonzeroCall *kept = plan.keep(call);
    plan.add<count_true>(call.split.blocks(), kept);
    plan.add<add_up>(1, kept);
    plan.add<write_positions>(call.split.blocks(), kept);
}

/* ---- items by index --------------------------------------------------------------------------------------------- */

constexpr const char *NO_ITEM = "an index is less than -n, or n or more";
constexpr uint64_t PIECE = 1 << 16; /* bytes of longer items that are copied at once */

struct TakeCall {
    vgc_take_params p;
    Head *head;
    Split split; /* of items, or of all their pieces */
};

/* The item that an index names; null: it names no item. */
const char *find_item(const vgc_take_params &p, uint64_t index_number)
{
    auto n = static_cast<uint64_t>(p.n);
    auto index = static_cast<uint64_t>(read_once(at<const int64_t>(p.indices) + index_number));
    uint64_t place = index < n ? index : index + n; /* negative ones wrap around */
    return place < n ? at<const char>(p.in) + place * static_cast<uint64_t>(p.item_bytes) : nullptr;
}

/* Copies an item; the compiler knows the size of some. */
template <uint64_t BYTES> void copy_item(const char *from, char *to, uint64_t bytes)
{
    std::memcpy(to, from, BYTES != 0 ? BYTES : bytes);
}

template <uint64_t BYTES> void take_items(const TakeCall &call, uint64_t block)
{
    const vgc_take_params &p = call.p;
    auto bytes = static_cast<uint64_t>(p.item_bytes);
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++) {
        const char *item = find_item(p, i);
        if (item == nullptr)
            return fail(call.head, NO_ITEM);
        copy_item<BYTES>(item, at<char>(p.out) + i * bytes, bytes);
    }
}

/* Pieces of each item. */
uint64_t pieces_of(const vgc_take_params &p)
{
    return (static_cast<uint64_t>(p.item_bytes) + PIECE - 1) / PIECE;
}

/* Takes long items piece by piece, so that blocks are short. */
void take_pieces(const TakeCall &call, uint64_t block)
{
    const vgc_take_params &p = call.p;
    uint64_t bytes = static_cast<uint64_t>(p.item_bytes), pieces = pieces_of(p);
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++) {
        uint64_t number = i / pieces, begin = i % pieces * PIECE;
        const char *item = find_item(p, number);
        if (item == nullptr)
            return fail(call.head, NO_ITEM);
        std::memcpy(at<char>(p.out) + number * bytes + begin, item + begin, std::min(PIECE, bytes - begin));
    }
}

template <uint64_t BYTES> void add_take(Plan &plan, const TakeCall &call)
{
    plan.add<take_items<BYTES>>(call.split.blocks(), plan.keep(call));
}

void plan_take(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_take_params *>(params);
    uint64_t pieces = pieces_of(p);
    double item_ns = 1.5 + 0.1 * static_cast<double>(p.item_bytes), ns = item_ns / static_cast<double>(pieces);
    plan.expect(item_ns * static_cast<double>(p.num_indices));
    TakeCall call = {p, plan.head(), plan.split(static_cast<uint64_t>(p.num_indices) * pieces, ns)};
    if (pieces > 1)
        return plan.add<take_pieces>(call.split.blocks(), plan.keep(call));
    switch (p.item_bytes) {
    case 1:
        return add_take<1>(plan, call);
    case 2:
        return add_take<2>(plan, call);
    case 4:
        return add_take<4>(plan, call);
    case 8:
        return add_take<8>(plan, call);
    case 16:
        return add_take<16>(plan, call);
    default:
        return add_take<0>(plan, call);
    }
}
} // namespace

Planner select_planner(uint32_t function, uint32_t)
{
    return function == VGC_FN_NONZERO ? plan_nonzero : plan_take;
}
} // namespace vgc
