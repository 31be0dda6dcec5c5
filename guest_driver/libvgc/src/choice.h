/* The faster side of a function, by size. */
#ifndef VGC_CHOICE_H
#define VGC_CHOICE_H

#include "sides.h"

/* Two classes for each doubling of the size; storage for eight at a time, once the function is called with such a size.
 */
enum { VGC_SIZE_CLASSES = 128, VGC_CLASSES_AT_ONCE = 8, VGC_CLASS_BLOCKS = VGC_SIZE_CLASSES / VGC_CLASSES_AT_ONCE };

struct vgc_size_class {
    struct vgc_times times;
    _Atomic uint64_t spent_ns; /* by this process */
    _Atomic uint64_t lost_ns;  /* of it, by trying the slower side */
};

struct vgc_size_block {
    struct vgc_size_class classes[VGC_CLASSES_AT_ONCE];
};

/* All times of one function. All zeroes: nothing was measured. */
struct vgc_sizes {
    _Atomic(struct vgc_size_block *) blocks[VGC_CLASS_BLOCKS];
    _Atomic uint64_t spent_ns; /* by this process, on all sizes */
    _Atomic uint64_t lost_ns;
    _Atomic uint32_t seen[VGC_TIMED_SIDES];       /* samples; those of earlier processes count as two */
    _Atomic uint32_t cold_class[VGC_TIMED_SIDES]; /* class + 1 of this process's first sample, 0: it no longer counts */
};

struct vgc_pick {
    enum vgc_timed_side side;
    bool is_try;                        /* it is not the faster one, as far as is known */
    uint64_t expected[VGC_TIMED_SIDES]; /* nanoseconds; 0: unknown */
};

uint32_t vgc_size_class_of(uint64_t size);
/* Smallest size of a class. */
uint64_t vgc_size_class_floor(uint32_t size_class);
/* The class, if it has storage. */
struct vgc_size_class *vgc_sizes_at(const struct vgc_sizes *sizes, uint32_t size_class);
/* Makes storage for the class; NULL: out of memory. */
struct vgc_size_class *vgc_sizes_make(struct vgc_sizes *sizes, uint32_t size_class);
void vgc_sizes_free(struct vgc_sizes *sizes);
/* Takes over what an earlier process has measured. */
void vgc_sizes_recall(struct vgc_sizes *sizes, const struct vgc_times_line *line);
/* The side for a call of this size. Changes nothing. */
struct vgc_pick vgc_sizes_pick(const struct vgc_sizes *sizes, uint64_t size);
/* Notes the time of a call. */
void vgc_sizes_note(struct vgc_sizes *sizes, uint64_t size, enum vgc_timed_side side, bool is_try, uint64_t ns);

#endif
