/* The faster side of a function, by size.
 *
 * Each side has a moving average per class of sizes. For a class in which a side was never measured, its time follows
 * from the classes around: costs are taken to be a constant and a part that grows with the size. The slower side is
 * tried again when that loses no more than a hundredth of the time that the class has taken so far, so the price of
 * learning is bounded however slow a side is. */
#include <stdlib.h>

#include "choice.h"
#include "internal.h"

enum {
    LEARNING_PERCENT = 2,  /* of a function's time may be lost by trying sides that are hardly known */
    FOLLOWING_PERCENT = 1, /* of a class's time may be lost by looking whether the slower side still is */
    AROUND = 4,            /* classes: sizes from a quarter to four times */
    FAR = 4,        /* so many times slower is believed of the CPU's first sample, and of what sizes around say */
    MOST_GROWTH = 4 /* of an average by one sample: the process may have been held up */
};

uint32_t vgc_size_class_of(uint64_t size)
{
    if (size < 2)
        return 0;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(size);
    return 2 * octave + (uint32_t)(size >> (octave - 1) & 1);
}

uint64_t vgc_size_class_floor(uint32_t size_class)
{
    uint64_t octave = 1ull << size_class / 2;
    return size_class < 2 ? 2 * size_class : size_class % 2 == 0 ? octave : octave + octave / 2;
}

/* A size in the middle of the class. */
static double middle(uint32_t size_class)
{
    return size_class < 2 ? 1.0 : 1.2 * (double)vgc_size_class_floor(size_class);
}

struct vgc_size_class *vgc_sizes_at(const struct vgc_sizes *sizes, uint32_t size_class)
{
    struct vgc_size_block *block =
        atomic_load_explicit(&sizes->blocks[size_class / VGC_CLASSES_AT_ONCE], memory_order_acquire);
    return block != NULL ? &block->classes[size_class % VGC_CLASSES_AT_ONCE] : NULL;
}

struct vgc_size_class *vgc_sizes_make(struct vgc_sizes *sizes, uint32_t size_class)
{
    _Atomic(struct vgc_size_block *) *place = &sizes->blocks[size_class / VGC_CLASSES_AT_ONCE];
    struct vgc_size_block *block = atomic_load_explicit(place, memory_order_acquire);
    if (block == NULL) {
        struct vgc_size_block *fresh = calloc(1, sizeof(*fresh));
        if (fresh == NULL)
            return NULL;
        if (atomic_compare_exchange_strong(place, &block, fresh))
            block = fresh;
        else
            free(fresh); /* another thread was faster */
    }
    return &block->classes[size_class % VGC_CLASSES_AT_ONCE];
}

void vgc_sizes_free(struct vgc_sizes *sizes)
{
    for (unsigned i = 0; i < VGC_CLASS_BLOCKS; i++)
        free(sizes->blocks[i]);
}

void vgc_sizes_recall(struct vgc_sizes *sizes, const struct vgc_times_line *line)
{
    struct vgc_size_class *at = line->size_class < VGC_SIZE_CLASSES ? vgc_sizes_make(sizes, line->size_class) : NULL;
    if (at == NULL)
        return;
    vgc_times_take(&at->times, line);
    for (unsigned side = 0; side < VGC_TIMED_SIDES; side++)
        if (line->samples[side] > 0)
            sizes->seen[side] = 2;
}

/* ---- expected times ------------------------------------------------------------------------- */

enum { NONE = VGC_SIZE_CLASSES };

/* Average time; 0: there are no samples. */
static uint64_t measured(const struct vgc_sizes *sizes, uint32_t size_class, enum vgc_timed_side side)
{
    const struct vgc_size_class *at = vgc_sizes_at(sizes, size_class);
    return at != NULL && at->times.samples[side] > 0 ? VGC_MAX(at->times.ns[side], 1u) : 0;
}

/* The nearest class below that was measured. */
static uint32_t below(const struct vgc_sizes *sizes, uint32_t from, enum vgc_timed_side side)
{
    for (uint32_t i = from; from != NONE && i-- > 0;)
        if (vgc_sizes_at(sizes, i) == NULL)
            i -= i % VGC_CLASSES_AT_ONCE;
        else if (measured(sizes, i, side) > 0)
            return i;
    return NONE;
}

static uint32_t above(const struct vgc_sizes *sizes, uint32_t from, enum vgc_timed_side side)
{
    for (uint32_t i = from + 1; i < VGC_SIZE_CLASSES; i++)
        if (vgc_sizes_at(sizes, i) == NULL)
            i |= VGC_CLASSES_AT_ONCE - 1;
        else if (measured(sizes, i, side) > 0)
            return i;
    return NONE;
}

/* Nanoseconds per byte between two classes. */
static double slope(const struct vgc_sizes *sizes, uint32_t low, uint32_t high, enum vgc_timed_side side)
{
    if (low == NONE || high == NONE)
        return 0;
    double grown = (double)measured(sizes, high, side) - (double)measured(sizes, low, side);
    return VGC_MAX(grown, 0.0) / (middle(high) - middle(low));
}

/* 0: the side was never measured. A lone measurement is taken for the best that it allows. */
static double expected(const struct vgc_sizes *sizes, uint32_t size_class, enum vgc_timed_side side)
{
    uint64_t own = measured(sizes, size_class, side);
    if (own > 0)
        return (double)own;
    uint32_t low = below(sizes, size_class, side);
    uint32_t high = above(sizes, size_class, side);
    double size = middle(size_class);
    if (low != NONE) {
        double ns = (double)measured(sizes, low, side);
        double growth = high != NONE ? slope(sizes, low, high, side) : slope(sizes, below(sizes, low, side), low, side);
        return VGC_MIN(ns + growth * (size - middle(low)), ns * size / middle(low));
    }
    if (high == NONE)
        return 0;
    double ns = (double)measured(sizes, high, side);
    uint32_t higher = above(sizes, high, side);
    double least = ns * size / middle(high);
    if (higher == NONE)
        return VGC_MAX(least, 1.0);
    return VGC_MAX(ns - slope(sizes, high, higher, side) * (middle(high) - size), VGC_MAX(least, 1.0));
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* A side of which too little is known to compare. The host's first call may have compiled something, which takes long.
 */
static bool is_unknown(const struct vgc_sizes *sizes, const double ns[VGC_TIMED_SIDES], enum vgc_timed_side side)
{
    if (sizes->seen[side] != 1)
        return sizes->seen[side] == 0;
    return side == VGC_TIMED_GPU || ns[side] < FAR * ns[VGC_TIMED_GPU];
}

/* May this much be lost by trying a side, given what was spent and lost so far? */
static bool is_within(double loss, uint64_t spent_ns, uint64_t lost_ns, double percent)
{
    return loss <= (double)spent_ns * percent / 100 - (double)lost_ns;
}

/* Samples of a side for about this size. */
static uint32_t samples_around(const struct vgc_sizes *sizes, uint32_t size_class, enum vgc_timed_side side)
{
    uint32_t samples = 0;
    for (uint32_t i = size_class - VGC_MIN(size_class, (uint32_t)AROUND);
         i <= size_class + AROUND && i < VGC_SIZE_CLASSES; i++) {
        const struct vgc_size_class *at = vgc_sizes_at(sizes, i);
        samples += at != NULL ? VGC_MIN(at->times.samples[side], 2u) : 0;
    }
    return samples;
}

/* A side that is hardly known is looked at sooner: one sample may have been held up, and what follows from other
 * classes may be wrong. That is at the expense of the whole function, so it happens where calls are short. */
static bool is_worth_a_try(const struct vgc_sizes *sizes, uint32_t size_class, enum vgc_timed_side slower, double ns,
                           double best)
{
    const struct vgc_size_class *at = vgc_sizes_at(sizes, size_class);
    uint32_t samples = at != NULL ? at->times.samples[slower] : 0;
    if (samples == 0 && ns <= 2 * best)
        return true;
    if (samples < 2 && is_within(ns - best, sizes->spent_ns, sizes->lost_ns, LEARNING_PERCENT) &&
        (ns < FAR * best || samples_around(sizes, size_class, slower) < 2))
        return true;
    return at != NULL && is_within(ns - best, at->spent_ns, at->lost_ns, FOLLOWING_PERCENT);
}

struct vgc_pick vgc_sizes_pick(const struct vgc_sizes *sizes, uint64_t size)
{
    uint32_t size_class = vgc_size_class_of(size);
    double ns[VGC_TIMED_SIDES];
    struct vgc_pick pick = {.side = VGC_TIMED_GPU, .is_try = true};
    for (unsigned side = 0; side < VGC_TIMED_SIDES; side++) {
        ns[side] = expected(sizes, size_class, (enum vgc_timed_side)side);
        pick.expected[side] = (uint64_t)VGC_MIN(ns[side], 1e18);
    }
    for (unsigned side = 0; side < VGC_TIMED_SIDES; side++)
        if (is_unknown(sizes, ns, (enum vgc_timed_side)side)) {
            pick.side = (enum vgc_timed_side)side;
            return pick;
        }
    enum vgc_timed_side best = ns[VGC_TIMED_CPU] < ns[VGC_TIMED_GPU] ? VGC_TIMED_CPU : VGC_TIMED_GPU;
    enum vgc_timed_side other = best == VGC_TIMED_CPU ? VGC_TIMED_GPU : VGC_TIMED_CPU;
    pick.is_try = is_worth_a_try(sizes, size_class, other, ns[other], ns[best]);
    pick.side = pick.is_try ? other : best;
    return pick;
}

/* A first sample, which may have warmed something up, no longer counts once there is a second one of any size. */
static void forget_cold(struct vgc_sizes *sizes, uint32_t size_class, enum vgc_timed_side side)
{
    uint32_t cold = atomic_exchange(&sizes->cold_class[side], 0);
    struct vgc_size_class *at = cold != 0 && cold != size_class + 1 ? vgc_sizes_at(sizes, cold - 1) : NULL;
    if (at != NULL && at->times.samples[side] == 1)
        at->times.samples[side] = 0;
}

/* A process may be held up at any time: one sample moves an average only so far, and a second one does not raise it. */
static uint64_t without_outlier(const struct vgc_times *times, enum vgc_timed_side side, uint64_t ns)
{
    uint64_t average = VGC_MAX(times->ns[side], 1u);
    switch (times->samples[side]) {
    case 0:
        return ns;
    case 1:
        return VGC_MIN(ns, average);
    default:
        return VGC_MIN(ns, MOST_GROWTH * average);
    }
}

void vgc_sizes_note(struct vgc_sizes *sizes, uint64_t size, enum vgc_timed_side side, bool is_try, uint64_t ns)
{
    uint32_t size_class = vgc_size_class_of(size);
    enum vgc_timed_side other = side == VGC_TIMED_CPU ? VGC_TIMED_GPU : VGC_TIMED_CPU;
    double otherwise = expected(sizes, size_class, other);
    struct vgc_size_class *at = vgc_sizes_make(sizes, size_class);
    if (at == NULL)
        return;
    uint64_t lost_ns = is_try && otherwise > 0 && (double)ns > otherwise ? ns - (uint64_t)otherwise : 0;
    (void)atomic_fetch_add(&sizes->spent_ns, ns);
    (void)atomic_fetch_add(&sizes->lost_ns, lost_ns);
    (void)atomic_fetch_add(&at->spent_ns, ns);
    (void)atomic_fetch_add(&at->lost_ns, lost_ns);
    if (atomic_fetch_add(&sizes->seen[side], 1) == 0)
        sizes->cold_class[side] = size_class + 1;
    else if (sizes->cold_class[side] != 0)
        forget_cold(sizes, size_class, side);
    vgc_times_note(&at->times, side, without_outlier(&at->times, side, ns));
}
