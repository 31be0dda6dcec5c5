// Sorting along the rows of (outer, n): Highway's vqsort for chunks of rows, which are merged in rounds.
//
// Keys become unsigned integers that are in the same order ("items"), for positions with the position behind the key.
// Chunks have a power of two of elements, as have the pieces that blocks merge: no piece belongs to two pairs of runs.
// The VM may write to its memory meanwhile. vqsort would then leave its array, so chunks are sorted in scratch memory;
// merging allows for it, so runs may lie in the VM's memory.
#include "merge.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <bit>
#include <hwy/contrib/sort/vqsort.h>
#include <limits>

namespace vgc
{
namespace
{
using Wide = unsigned __int128;

/* ---- items ---------------------------------------------------------------------------------------------------- */

template <class T> using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

/* Integer in the order of keys, NaN behind all; descending: in their reverse order, but for NaN. */
template <class T> Bits<T> bits_of(T key, bool descending)
{
    constexpr Bits<T> SIGN = Bits<T>(1) << (8 * sizeof(T) - 1);
    if constexpr (std::is_floating_point_v<T>) {
        if (key != key)
            return ~Bits<T>(0);
        auto bits = std::bit_cast<Bits<T>>(key);
        bits = bits & SIGN ? ~bits : bits | SIGN;
        return descending ? ~bits : bits;
    } else {
        Bits<T> bits = std::is_signed_v<T> ? static_cast<Bits<T>>(key) ^ SIGN : static_cast<Bits<T>>(key);
        return descending ? ~bits : bits;
    }
}

template <class T> T key_of(Bits<T> bits, bool descending)
{
    constexpr Bits<T> SIGN = Bits<T>(1) << (8 * sizeof(T) - 1);
    if constexpr (std::is_floating_point_v<T>) {
        if (bits == ~Bits<T>(0))
            return std::numeric_limits<T>::quiet_NaN();
        bits = descending ? ~bits : bits;
        return std::bit_cast<T>(bits & SIGN ? bits & ~SIGN : ~bits);
    } else {
        bits = descending ? ~bits : bits;
        return static_cast<T>(std::is_signed_v<T> ? bits ^ SIGN : bits);
    }
}

void sort_items(uint32_t *items, uint64_t n)
{
    hwy::Sorter()(items, n, hwy::SortAscending());
}

void sort_items(uint64_t *items, uint64_t n)
{
    hwy::Sorter()(items, n, hwy::SortAscending());
}

void sort_items(Wide *items, uint64_t n)
{
    hwy::Sorter()(reinterpret_cast<hwy::uint128_t *>(items), n, hwy::SortAscending());
}

/* ---- runs ----------------------------------------------------------------------------------------------------- */

constexpr uint64_t PIECE = 1 << 15;
constexpr uint64_t LEAST_CHUNK = PIECE;

/* Blocks that sort a chunk take up to some 10 ms: a chunk that is half as long costs a round more, of all elements.
 * Where all threads have rows of their own, rounds would cost more than all else, and blocks may take half a second. */
template <class Item> constexpr uint64_t MOST_CHUNK = (8 << 20) / sizeof(Item);
template <class Item> constexpr uint64_t MOST_ROW = (256 << 20) / sizeof(Item);
template <class Item> constexpr double ITEM_NS = sizeof(Item) == 16 ? 20 : sizeof(Item);

/* Rows with their chunks. */
template <class Item> struct Runway {
    uint64_t outer, n;
    uint64_t chunk, chunks; /* of a row */
    uint64_t rounds;
    Split rows;      /* where rows have one chunk; else of the chunks, one by one */
    Scratch scratch; /* for a chunk */
    Item *first;     /* items of the sorted chunks; null: nobody wants them */
    Item *second;    /* of rounds 1, 3, ...; null without rounds */

    /* Items before and behind a round. */
    Item *from(uint64_t round) const
    {
        return round % 2 == 0 ? first : second;
    }
    Item *sorted() const
    {
        return from(rounds);
    }
};

/* Elements of a chunk, at most: of one row, or of the part of it that a thread has. */
template <class Item> uint64_t chunk_of(uint64_t outer, uint64_t n, uint64_t pes)
{
    if (outer >= pes && n <= MOST_CHUNK<Item>)
        return std::max(n, LEAST_CHUNK);
    if (outer % pes == 0 || outer >= 4 * pes)
        return std::min(n, MOST_ROW<Item>);
    return std::clamp(n / pes, LEAST_CHUNK, MOST_CHUNK<Item>);
}

/* Lays out rows; the sorted items have no memory yet. */
template <class Item> Runway<Item> lay_out(Plan &plan, int64_t outer, int64_t n)
{
    Runway<Item> way = {};
    way.outer = static_cast<uint64_t>(outer);
    way.n = static_cast<uint64_t>(n);
    double row_ns = ITEM_NS<Item> * static_cast<double>(way.n) + 50;
    plan.expect(row_ns * static_cast<double>(way.outer));
    way.chunk = std::bit_ceil(chunk_of<Item>(way.outer, way.n, plan.pes()));
    way.chunks = (way.n + way.chunk - 1) / way.chunk;
    while (way.chunks >> way.rounds > 1 || (uint64_t(1) << way.rounds) < way.chunks)
        way.rounds++;
    way.rows = way.chunks > 1 ? Split{way.outer * way.chunks, 1} : plan.split(way.outer, row_ns);
    way.scratch = plan.scratch(std::min(way.chunk, way.n) * sizeof(Item));
    return way;
}

/* Some elements of a row. */
struct Stretch {
    uint64_t row, begin, end;
};

template <class Item> Stretch chunk_at(const Runway<Item> &way, uint64_t index)
{
    uint64_t begin = index % way.chunks * way.chunk;
    return {index / way.chunks, begin, std::min(way.n, begin + way.chunk)};
}

template <class Item> uint64_t pieces_of(const Runway<Item> &way)
{
    return (way.n + PIECE - 1) / PIECE;
}

/* Merges one piece of a round. */
template <class Item> Stretch merge_at(const Runway<Item> &way, uint64_t round, uint64_t block)
{
    uint64_t begin = block % pieces_of(way) * PIECE, run = way.chunk << round;
    Stretch piece = {block / pieces_of(way), begin, std::min(way.n, begin + PIECE)};
    uint64_t pair = begin / (2 * run) * (2 * run);
    const Item *a = way.from(round) + piece.row * way.n + pair;
    uint64_t left = way.n - pair, a_count = std::min(run, left);
    merge_piece(a, a_count, a + a_count, std::min(run, left - a_count), begin - pair, piece.end - pair,
                way.from(round + 1) + piece.row * way.n + begin);
    return piece;
}

template <class Call> struct Round {
    const Call *call;
    uint64_t index;
};

/* First step of all sorts. A call has a Runway `way`, and `load` and `store` for stretches of items. */
template <class Call> void sort_chunks(const Call &call, uint64_t block)
{
    const auto &way = call.way;
    Lease lease(way.scratch);
    auto *items = reinterpret_cast<decltype(way.first)>(lease.memory());
    for (uint64_t i = way.rows.begin(block); i < way.rows.end(block); i++) {
        Stretch chunk = chunk_at(way, i);
        uint64_t count = chunk.end - chunk.begin;
        call.load(chunk, items);
        sort_items(items, count);
        if (way.first != nullptr)
            std::copy_n(items, count, way.first + chunk.row * way.n + chunk.begin);
        if (way.rounds == 0)
            call.store(chunk, items);
    }
}

template <class Call> void merge_round(const Round<Call> &round, uint64_t block)
{
    const auto &way = round.call->way;
    Stretch piece = merge_at(way, round.index, block);
    if (round.index + 1 == way.rounds)
        round.call->store(piece, way.sorted() + piece.row * way.n + piece.begin);
}

template <class Call> const Call *add_sort(Plan &plan, const Call &call)
{
    const Call *kept = plan.keep(call);
    plan.add<sort_chunks<Call>>(call.way.rows.blocks(), kept);
    for (uint64_t i = 0; i < call.way.rounds; i++)
        plan.add<merge_round<Call>>(call.way.outer * pieces_of(call.way), plan.keep(Round<Call>{kept, i}));
    return kept;
}

/* ---- keys ----------------------------------------------------------------------------------------------------- */

template <class T> struct KeysCall {
    vgc_sort_params p;
    Runway<Bits<T>> way;

    void load(const Stretch &from, Bits<T> *items) const
    {
        const T *keys = at<const T>(p.in) + from.row * way.n + from.begin;
        for (uint64_t i = 0; i < from.end - from.begin; i++)
            items[i] = bits_of(keys[i], p.descending != 0);
    }
    void store(const Stretch &to, const Bits<T> *items) const
    {
        T *keys = at<T>(p.out) + to.row * way.n + to.begin;
        for (uint64_t i = 0; i < to.end - to.begin; i++)
            keys[i] = key_of<T>(items[i], p.descending != 0);
    }
};

template <class T> void plan_keys(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_sort_params *>(params);
    if (p.outer == 0 || p.n == 0)
        return;
    KeysCall<T> call = {p, lay_out<Bits<T>>(plan, p.outer, p.n)};
    if (call.way.rounds > 0) {
        auto *out = at<Bits<T>>(p.out), *other = plan.take<Bits<T>>(call.way.outer * call.way.n);
        call.way.first = call.way.rounds % 2 == 0 ? out : other;
        call.way.second = call.way.rounds % 2 == 0 ? other : out;
    }
    add_sort(plan, call);
}

/* ---- positions, and values with their keys --------------------------------------------------------------------- */

/* Key with its position: as they differ, sorting them is stable. */
template <class T> using Placed = std::conditional_t<sizeof(T) == 4, uint64_t, Wide>;

template <class T> constexpr uint64_t MOST_PLACES = sizeof(T) == 4 ? uint64_t(1) << 32 : ~uint64_t(0);

template <class T> Placed<T> placed(T key, uint64_t index, bool descending)
{
    return Placed<T>(bits_of(key == 0 ? T(0) : key, descending)) << (8 * sizeof(T)) | index;
}

template <class T> uint64_t place_of(Placed<T> item)
{
    return static_cast<Bits<T>>(item);
}

template <class T> struct PlacesCall {
    const T *keys;
    T *keys_out;        /* null: positions are wanted */
    int64_t *positions; /* null: keys and values are wanted */
    const char *values;
    char *values_out;
    int32_t value_bytes;
    bool descending;
    Runway<Placed<T>> way;

    void load(const Stretch &from, Placed<T> *items) const
    {
        const T *row = keys + from.row * way.n;
        for (uint64_t i = from.begin; i < from.end; i++)
            items[i - from.begin] = placed(row[i], i, descending);
    }

    template <class Value> void move_values(const Stretch &to, const Placed<T> *items) const
    {
        const auto *from = reinterpret_cast<const Value *>(values) + to.row * way.n;
        auto *out = reinterpret_cast<Value *>(values_out) + to.row * way.n;
        for (uint64_t i = to.begin; i < to.end; i++)
            out[i] = from[place_of<T>(items[i - to.begin])];
    }

    void store(const Stretch &to, const Placed<T> *items) const
    {
        if (positions != nullptr) {
            for (uint64_t i = to.begin; i < to.end; i++)
                positions[to.row * way.n + i] = static_cast<int64_t>(place_of<T>(items[i - to.begin]));
            return;
        }
        for (uint64_t i = to.begin; i < to.end; i++)
            keys_out[to.row * way.n + i] = keys[to.row * way.n + place_of<T>(items[i - to.begin])];
        if (value_bytes == 1)
            move_values<uint8_t>(to, items);
        else if (value_bytes == 2)
            move_values<uint16_t>(to, items);
        else if (value_bytes == 4)
            move_values<uint32_t>(to, items);
        else
            move_values<uint64_t>(to, items);
    }
};

template <class T> void add_places(Plan &plan, PlacesCall<T> &call, int64_t outer, int64_t n)
{
    if (outer == 0 || n == 0)
        return;
    call.way = lay_out<Placed<T>>(plan, outer, n);
    if (call.way.rounds > 0) {
        call.way.first = plan.take<Placed<T>>(call.way.outer * call.way.n);
        call.way.second = plan.take<Placed<T>>(call.way.outer * call.way.n);
    }
    add_sort(plan, call);
}

template <class T> void plan_argsort(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_sort_params *>(params);
    PlacesCall<T> call = {};
    call.keys = at<const T>(p.in);
    call.positions = at<int64_t>(p.out);
    call.descending = p.descending != 0;
    add_places(plan, call, p.outer, p.n);
}

template <class T> void plan_pairs(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_sort_pairs_params *>(params);
    PlacesCall<T> call = {};
    call.keys = at<const T>(p.keys);
    call.keys_out = at<T>(p.keys_out);
    call.values = at<const char>(p.values);
    call.values_out = at<char>(p.values_out);
    call.value_bytes = p.value_bytes;
    call.descending = p.descending != 0;
    add_places(plan, call, p.outer, p.n);
}

/* ---- unique --------------------------------------------------------------------------------------------------- */

template <class T> struct UniqueCall {
    vgc_unique_params p;
    Runway<Bits<T>> way;
    Split split;
    uint64_t *counts; /* different elements of a block, then of all blocks before it */

    void load(const Stretch &from, Bits<T> *items) const
    {
        const T *keys = at<const T>(p.in);
        for (uint64_t i = from.begin; i < from.end; i++)
            items[i - from.begin] = bits_of(keys[i] == 0 ? T(0) : keys[i], false);
    }
    void store(const Stretch &, const Bits<T> *) const
    {
    }
    bool is_new(uint64_t i) const
    {
        return i == 0 || way.sorted()[i] != way.sorted()[i - 1];
    }
};

template <class T> void count_new(const UniqueCall<T> &call, uint64_t block)
{
    uint64_t count = 0;
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++)
        count += call.is_new(i);
    call.counts[block] = count;
}

template <class T> void add_up(const UniqueCall<T> &call, uint64_t)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i < call.split.blocks(); i++) {
        uint64_t count = call.counts[i];
        call.counts[i] = before;
        before += count;
    }
    *at<int64_t>(call.p.count) = static_cast<int64_t>(before);
}

template <class T> void write_new(const UniqueCall<T> &call, uint64_t block)
{
    T *out = at<T>(call.p.out) + call.counts[block];
    for (uint64_t i = call.split.begin(block); i < call.split.end(block); i++)
        if (call.is_new(i))
            *out++ = key_of<T>(call.way.sorted()[i], false);
}

template <class T> void plan_unique(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_unique_params *>(params);
    UniqueCall<T> call = {};
    call.p = p;
    call.way = lay_out<Bits<T>>(plan, 1, p.n);
    call.way.first = plan.take<Bits<T>>(call.way.n);
    if (call.way.rounds > 0)
        call.way.second = plan.take<Bits<T>>(call.way.n);
    call.split = plan.split(call.way.n, 1);
    call.counts = plan.take<uint64_t>(call.split.blocks());
    const UniqueCall<T> *kept = p.n > 0 ? add_sort(plan, call) : plan.keep(call);
    plan.add<count_new<T>>(call.split.blocks(), kept);
    plan.add<add_up<T>>(1, kept);
    plan.add<write_new<T>>(call.split.blocks(), kept);
}

template <class T> struct KeysOf {
    static constexpr Planner plan = plan_keys<T>;
};
template <class T> struct PlacesOf {
    static constexpr Planner plan = plan_argsort<T>;
};
template <class T> struct PairsOf {
    static constexpr Planner plan = plan_pairs<T>;
};
template <class T> struct UniqueOf {
    static constexpr Planner plan = plan_unique<T>;
};
} // namespace

Planner sort_planner(uint32_t function, uint32_t type)
{
    switch (function) {
    case VGC_FN_SORT_KEYS:
        return number_planner<KeysOf>(type);
    case VGC_FN_ARGSORT:
        return number_planner<PlacesOf>(type);
    case VGC_FN_SORT_PAIRS:
        return number_planner<PairsOf>(type);
    default:
        return number_planner<UniqueOf>(type);
    }
}
} // namespace vgc
