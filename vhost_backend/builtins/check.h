/* Checks of a call's parameters, for the files beside this one.
 *
 * All functions return false after writing why the call is refused. A parameter is named by a pointer to its value in
 * the parameter block: its name stands in the function's table. */
#ifndef VGC_BUILTIN_CHECK_H
#define VGC_BUILTIN_CHECK_H

#include "vgc_builtins.h"

#include <stdbool.h>

/* Kinds of parameters, those of the wire format's enum vgc_param_kind. */
enum {
    VGC_KIND_INTEGER = 1,
    VGC_KIND_FLOAT = 2,
    VGC_KIND_POINTER = 3,
};

/* Row of a parameter table. `block` is the struct of the parameters. */
#define VGC_PARAM(block, field, kind, use, meaning)                                                                    \
    {#field, offsetof(struct block, field), sizeof(((struct block *)0)->field), VGC_KIND_##kind, VGC_USE_##use, meaning}

/* Rows of the four numbers of an array, one for each axis: name0, name1, ... */
#define VGC_AXIS_PARAM(block, array, axis, meaning)                                                                    \
    {#array #axis, offsetof(struct block, array[axis]), 8, VGC_KIND_INTEGER, VGC_USE_VALUE, meaning}
#define VGC_AXES_PARAMS(block, array, meaning)                                                                         \
    VGC_AXIS_PARAM(block, array, 0, meaning), VGC_AXIS_PARAM(block, array, 1, meaning),                                \
        VGC_AXIS_PARAM(block, array, 2, meaning), VGC_AXIS_PARAM(block, array, 3, meaning)

#define VGC_LENGTH_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* Fields of a row of the function table that follow from its parameters. */
#define VGC_TAKES(block, table)                                                                                        \
    .params = (table), .num_params = VGC_LENGTH_OF(table), .param_bytes = sizeof(struct block)

/* Rows of memory that a parameter points to; the gaps between them are not accessed. */
struct vgc_rows {
    uint64_t address;
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t stride; /* bytes from row to row */
};

struct vgc_check {
    const struct vgc_builtin *builtin;
    const char *params;
    struct vgc_builtin_need *need;
    char *why;
    struct vgc_rows rows[VGC_BUILTIN_RANGES]; /* of each range of `need` */
};

/* Begins a check. */
struct vgc_check vgc_check_begin(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                                 char *why);

/* Refuses the call with a text: false. */
__attribute__((format(printf, 2, 3))) bool vgc_check_refuse(struct vgc_check *check, const char *format, ...);

/* A length: 0 to VGC_BUILTIN_LONGEST. */
bool vgc_check_length(struct vgc_check *check, const int64_t *value);

/* A number from `least` to `most`; `reason`, which may be empty, says where the bound comes from. */
bool vgc_check_number(struct vgc_check *check, const int64_t *value, int64_t least, int64_t most, const char *reason);

/* A flag: 0 or 1. */
bool vgc_check_flag(struct vgc_check *check, const int32_t *value);

/* An array of `count` elements of `bytes` bytes each, one behind the other. */
bool vgc_check_array(struct vgc_check *check, const uint64_t *address, uint64_t count, uint32_t bytes);

/* A vector: elements that are `increment` elements apart, 1 or more. */
bool vgc_check_vector(struct vgc_check *check, const uint64_t *address, int64_t n, const int64_t *increment);

/* Layout of matrices that lie `stride` elements apart. */
struct vgc_matrices {
    int64_t rows;
    int64_t columns;
    const int64_t *ld;
    int64_t batch;
    const int64_t *stride; /* NULL: there is one matrix */
    bool written;          /* they must not overlap one another */
};

bool vgc_check_matrices(struct vgc_check *check, const uint64_t *address, const struct vgc_matrices *matrices);

/* Refuses a call that writes where it also reads, or writes by two parameters. `in_place` is an input that may begin
 * where `out` does, with elements of the same size; NULL: no input may. */
bool vgc_check_apart(struct vgc_check *check, const uint64_t *in_place, const uint64_t *out);

/* The like, where each of `count` inputs, if not NULL, may begin where `out` does. */
bool vgc_check_inputs_apart(struct vgc_check *check, const uint64_t *const *in_place, uint32_t count,
                            const uint64_t *out);

/* Lengths of VGC_BUILTIN_RANK axes; `count` becomes the number of elements. */
bool vgc_check_shape(struct vgc_check *check, const int64_t *shape, uint64_t *count);

/* An input of that shape, not empty, with elements of `bytes` bytes and strides of 0 or more for each axis. */
bool vgc_check_strided(struct vgc_check *check, const uint64_t *address, uint32_t bytes, const int64_t *shape,
                       const int64_t *strides);

/* Product of lengths; false if it does not fit in 63 bits. */
bool vgc_check_product(struct vgc_check *check, uint64_t *product, const char *what, uint32_t count,
                       const int64_t *factors);

#endif
