// Merging of sorted runs: pieces of the result that are independent of one another.
//
// Runs that are not sorted, or change meanwhile, give a wrong result: nothing outside of them and of it is accessed.
#ifndef VGC_CPU_MERGE_H
#define VGC_CPU_MERGE_H

#include "read_once.h"

#include <algorithm>
#include <cstdint>

namespace vgc
{
/* Two sorted runs, or what is left of them, and the place of their merged elements. */
template <class Item> struct Runs {
    const Item *a, *a_end;
    const Item *b, *b_end;
    Item *out;

    uint64_t sure() const
    {
        return static_cast<uint64_t>(std::min(a_end - a, b_end - b));
    }
    /* Takes the lesser of two elements, without a branch: which it is cannot be foretold. */
    void take()
    {
        Item x = read_once(a), y = read_once(b);
        bool is_b = y < x;
        *out++ = x ^ ((x ^ y) & (Item(0) - Item(is_b)));
        b += is_b;
        a += !is_b;
    }
    void take_all()
    {
        for (uint64_t count = sure(); count > 0; count = sure())
            for (uint64_t i = 0; i < count; i++)
                take();
        std::copy(b, b_end, std::copy(a, a_end, out));
    }
};

/* Number of elements of `a` among the first `count` of a and b merged, from `low` to `high`. */
template <class Item> uint64_t merge_path(const Item *a, const Item *b, uint64_t count, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (b[count - middle - 1] < a[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Merges elements `begin` to `end` of a and b merged. Four pieces at a time: the processor waits for one of them. */
template <class Item>
void merge_piece(const Item *a, uint64_t a_count, const Item *b, uint64_t b_count, uint64_t begin, uint64_t end,
                 Item *out)
{
    constexpr uint64_t PIECES = 4;
    Runs<Item> runs[PIECES];
    auto least = [&](uint64_t count) { return count > b_count ? count - b_count : 0; };
    uint64_t from = merge_path(a, b, begin, least(begin), std::min(begin, a_count));
    for (uint64_t i = 0, at = begin; i < PIECES; i++) {
        uint64_t to = begin + (end - begin) * (i + 1) / PIECES;
        uint64_t until = merge_path(a, b, to, std::max(from, least(to)), std::min(from + (to - at), a_count));
        runs[i] = {a + from, a + until, b + (at - from), b + (to - until), out + (at - begin)};
        from = until;
        at = to;
    }
    for (;;) {
        uint64_t count = std::min(std::min(runs[0].sure(), runs[1].sure()), std::min(runs[2].sure(), runs[3].sure()));
        if (count < 16)
            break;
        Runs<Item> r0 = runs[0], r1 = runs[1], r2 = runs[2], r3 = runs[3];
        for (uint64_t i = 0; i < count; i++) {
            r0.take();
            r1.take();
            r2.take();
            r3.take();
        }
        runs[0] = r0;
        runs[1] = r1;
        runs[2] = r2;
        runs[3] = r3;
    }
    for (Runs<Item> &run : runs)
        run.take_all();
}
} // namespace vgc

#endif
