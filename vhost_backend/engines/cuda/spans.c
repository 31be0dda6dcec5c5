/* Spans: taken addresses of the range.
 *
 * A new span is placed where it needs the least additional physical memory, since granules that a neighbour uses
 * already cost nothing. Among equals, a span smaller than a granule gets the lowest address and others the highest, so
 * that small spans do not fragment the room for large ones. The same calls in the same order give the same addresses.
 */
#include "cuda_mapped.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

bool cuda_spans_open(struct cuda_spans *spans, uint64_t base, uint64_t size, uint64_t granule)
{
    void *table = mmap(NULL, CUDA_SPANS * sizeof(*spans->given), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return false;
    *spans = (struct cuda_spans){.base = base, .size = size, .granule = granule, .given = table};
    return true;
}

void cuda_spans_close(struct cuda_spans *spans)
{
    if (spans->given != NULL)
        munmap(spans->given, CUDA_SPANS * sizeof(*spans->given));
    *spans = (struct cuda_spans){0};
}

/* Index of the first span that begins at or behind `address`. */
static uint32_t lower_bound(const struct cuda_spans *spans, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = spans->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (spans->given[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(struct cuda_spans *spans, uint32_t index, struct cuda_span span)
{
    struct cuda_span *place = &spans->given[index];
    memmove(place + 1, place, (spans->count - index) * sizeof(*place));
    *place = span;
    spans->count++;
}

/* ---- choosing a place --------------------------------------------------------------------------------------- */

struct gap {
    uint64_t begin;
    uint64_t end;
};

/* Gap in front of the span with this index, or behind the last span. */
static struct gap gap_at(const struct cuda_spans *spans, uint32_t index)
{
    const struct cuda_span *before = index == 0 ? NULL : &spans->given[index - 1];
    return (struct gap){
        .begin = before == NULL ? spans->base : before->address + before->size,
        .end = index == spans->count ? spans->base + spans->size : spans->given[index].address,
    };
}

/* Number of granules of [at, at + size) that no neighbour uses. */
static uint64_t added_granules(const struct cuda_spans *spans, struct gap gap, uint64_t at, uint64_t size)
{
    uint64_t granule = spans->granule;
    uint64_t first = at / granule;
    uint64_t last = (at + size - 1) / granule;
    bool shares_first = gap.begin != spans->base && (gap.begin - 1) / granule == first;
    bool shares_last = gap.end != spans->base + spans->size && gap.end / granule == last;
    if (first == last)
        return shares_first || shares_last ? 0 : 1;
    return last - first + 1 - shares_first - shares_last;
}

struct place {
    uint64_t address; /* 0: none yet */
    uint64_t added;
    uint32_t index;
};

static void consider(const struct cuda_spans *spans, struct place *best, uint32_t index, uint64_t at, uint64_t size)
{
    uint64_t added = added_granules(spans, gap_at(spans, index), at, size);
    if (best->address == 0 || added < best->added)
        *best = (struct place){at, added, index};
}

/* Chooses the best place, among both ends of each gap in order of preference. */
static struct place choose(const struct cuda_spans *spans, uint64_t size)
{
    struct place best = {0};
    bool is_small = size < spans->granule;
    for (uint32_t i = 0; i <= spans->count && (best.address == 0 || best.added != 0); i++) {
        uint32_t index = is_small ? i : spans->count - i;
        struct gap gap = gap_at(spans, index);
        if (gap.end - gap.begin < size)
            continue;
        consider(spans, &best, index, is_small ? gap.begin : gap.end - size, size);
        consider(spans, &best, index, is_small ? gap.end - size : gap.begin, size);
    }
    return best;
}

uint64_t cuda_spans_take(struct cuda_spans *spans, uint64_t size)
{
    if (spans->count == CUDA_SPANS || size == 0 || size > spans->size)
        return 0;
    struct place place = choose(spans, size);
    if (place.address != 0)
        insert(spans, place.index, (struct cuda_span){place.address, size});
    return place.address;
}

int cuda_spans_take_at(struct cuda_spans *spans, uint64_t address, uint64_t size)
{
    if (size == 0 || (address | size) % CUDA_ALIGN != 0 || address < spans->base || size > spans->size ||
        address - spans->base > spans->size - size)
        return -EINVAL;
    if (spans->count == CUDA_SPANS)
        return -ENOMEM;
    uint32_t index = lower_bound(spans, address);
    struct gap gap = gap_at(spans, index);
    if (address < gap.begin || gap.end < address || gap.end - address < size)
        return -EEXIST;
    insert(spans, index, (struct cuda_span){address, size});
    return 0;
}

uint64_t cuda_spans_give(struct cuda_spans *spans, uint64_t address)
{
    uint32_t index = lower_bound(spans, address);
    struct cuda_span *span = &spans->given[index];
    if (index == spans->count || span->address != address)
        return 0;
    uint64_t size = span->size;
    memmove(span, span + 1, (spans->count - index - 1) * sizeof(*span));
    spans->count--;
    return size;
}
