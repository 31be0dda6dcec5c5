/* Two sides for one function: rules that name a side, and measured times of both. Used by calls by name (named.c) and
 * by libcudart, for kernels that have a CPU version. */
#ifndef VGC_SIDES_H
#define VGC_SIDES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- rules.c --------------------------------------------------------------------------------- */

enum vgc_rule_side { VGC_RULE_AUTO, VGC_RULE_CPU, VGC_RULE_GPU, VGC_RULE_WRONG };

/* One rule of a list with commas between: SIDE, PATTERN=SIDE, or PATTERN=SIDE:CONDITION:... It points into the list. */
struct vgc_rule {
    const char *text;
    size_t len;
    const char *pattern; /* NULL: any name */
    size_t pattern_len;
    const char *side_text;
    size_t side_len; /* up to the conditions */
    enum vgc_rule_side side;
    bool has_conditions;
    const char *wrong; /* the first text that is not a condition; NULL: all are well */
    size_t wrong_len;
    uint64_t at_least; /* bytes of buffers */
    uint64_t below;
    const char *type; /* NULL: any */
    size_t type_len;
};

/* Takes the next rule off the list. False: the list is empty. */
bool vgc_rule_next(const char **list, struct vgc_rule *rule);
bool vgc_rule_is_of(const struct vgc_rule *rule, const char *name);
/* Are the conditions met? `type` may be NULL: unknown. */
bool vgc_rule_applies(const struct vgc_rule *rule, uint64_t bytes, const char *type);

/* ---- times.c --------------------------------------------------------------------------------- */

enum vgc_timed_side { VGC_TIMED_GPU, VGC_TIMED_CPU, VGC_TIMED_SIDES };

/* Times of one function for one class of sizes. */
struct vgc_times {
    _Atomic uint64_t ns[VGC_TIMED_SIDES]; /* moving average */
    _Atomic uint32_t samples[VGC_TIMED_SIDES];
    atomic_bool is_new; /* measured by this process */
};

/* Takes a measurement into the average. A first one compiles, opens, starts threads: the second replaces it. */
void vgc_times_note(struct vgc_times *times, enum vgc_timed_side side, uint64_t ns);

/* File that keeps times from run to run. It has a line for each function and class: `owner` in hexadecimal, name,
 * class, nanoseconds and samples of the device, nanoseconds and samples of the CPU; then perhaps a remark. */
struct vgc_times_file {
    char path[512];
    bool is_given; /* the user has named it: it is not replaced if there is something else in it */
};

struct vgc_times_line {
    uint64_t owner;   /* whose times they are: digest of all that they depend on */
    const char *name; /* without white space */
    uint32_t size_class;
    uint64_t ns[VGC_TIMED_SIDES];
    uint32_t samples[VGC_TIMED_SIDES];
    const char *remark; /* NULL: none */
};

struct vgc_times_news {
    bool (*next)(void *data, struct vgc_times_line *line);      /* false: these were all */
    bool (*has)(void *data, const struct vgc_times_line *line); /* is it among them? */
    void *data;
};

/* $VARIABLE, or `name` in the user's folder for caches, which is made. False: nothing is kept. */
bool vgc_times_find(struct vgc_times_file *file, const char *variable, const char *name);
/* Calls `take` for each line. Other lines are left out. */
void vgc_times_read(const struct vgc_times_file *file, void (*take)(void *data, const struct vgc_times_line *line),
                    void *data);
/* Writes the file anew: first the news, then what else it had. Processes that end at once wait for each other. */
void vgc_times_write(const struct vgc_times_file *file, const struct vgc_times_news *news);
void vgc_times_take(struct vgc_times *times, const struct vgc_times_line *line);
void vgc_times_give(struct vgc_times *times, struct vgc_times_line *line);

#endif
