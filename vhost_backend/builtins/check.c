/* Checks of a call's parameters. */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t vgc_builtin_type_bytes(uint32_t type)
{
    static const uint8_t BYTES[VGC_NUM_TYPES] = {
        [VGC_TYPE_F16] = 2, [VGC_TYPE_F32] = 4, [VGC_TYPE_F64] = 8, [VGC_TYPE_I32] = 4,
        [VGC_TYPE_I64] = 8, [VGC_TYPE_U32] = 4, [VGC_TYPE_U64] = 8, [VGC_TYPE_B8] = 1,
    };
    return type < VGC_NUM_TYPES ? BYTES[type] : 0;
}

uint32_t vgc_builtin_unit(int64_t bytes)
{
    uint32_t unit = 8;
    while (bytes % unit != 0)
        unit /= 2;
    return unit;
}

struct vgc_check vgc_check_begin(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                                 char *why)
{
    struct vgc_check check = {.builtin = builtin, .params = params, .need = need, .why = why};
    memset(need, 0, sizeof(*need));
    why[0] = '\0';
    return check;
}

bool vgc_check_refuse(struct vgc_check *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check->why, VGC_BUILTIN_WHY, format, args);
    va_end(args);
    return false;
}

/* Index of the parameter whose value is at `value`. */
static uint32_t param_of(const struct vgc_check *check, const void *value)
{
    ptrdiff_t offset = (const char *)value - check->params;
    uint32_t index = 0;
    while (index + 1 < check->builtin->num_params && check->builtin->params[index].offset != (uint64_t)offset)
        index++;
    return index;
}

static const char *name_of(const struct vgc_check *check, const void *value)
{
    return check->builtin->params[param_of(check, value)].name;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

bool vgc_check_number(struct vgc_check *check, const int64_t *value, int64_t least, int64_t most, const char *reason)
{
    if (*value >= least && *value <= most)
        return true;
    const char *comma = reason[0] != '\0' ? ", " : "";
    return vgc_check_refuse(check, "%s is %" PRId64 "; allowed: %" PRId64 " to %" PRId64 "%s%s", name_of(check, value),
                            *value, least, most, comma, reason);
}

bool vgc_check_length(struct vgc_check *check, const int64_t *value)
{
    return vgc_check_number(check, value, 0, VGC_BUILTIN_LONGEST, "");
}

bool vgc_check_flag(struct vgc_check *check, const int32_t *value)
{
    if (*value == 0 || *value == 1)
        return true;
    return vgc_check_refuse(check, "%s is %" PRId32 "; allowed: 0 or 1", name_of(check, value), *value);
}

bool vgc_check_product(struct vgc_check *check, uint64_t *product, const char *what, uint32_t count,
                       const int64_t *factors)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < count; i++)
        if (factors[i] == 0) {
            *product = 0;
            return true;
        }
    for (uint32_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(all, (uint64_t)factors[i], &all) || all > INT64_MAX)
            return vgc_check_refuse(check, "%s is more than any memory holds", what);
    *product = all;
    return true;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* Bytes from the begin of the first row to the end of the last one; false: more than an address can tell. */
static bool extent(const struct vgc_rows *rows, uint64_t *bytes)
{
    return !__builtin_mul_overflow(rows->rows - 1, rows->stride, bytes) &&
           !__builtin_add_overflow(*bytes, rows->row_bytes, bytes) && *bytes <= INT64_MAX;
}

/* Adds memory to what the call accesses; rows of nothing are no memory. */
static bool add(struct vgc_check *check, const uint64_t *address, const struct vgc_rows *rows, uint32_t alignment)
{
    struct vgc_builtin_need *need = check->need;
    uint64_t bytes, end;
    if (rows->rows == 0 || rows->row_bytes == 0)
        return true;
    if (!extent(rows, &bytes) || __builtin_add_overflow(*address, bytes, &end))
        return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    if (*address == 0)
        return vgc_check_refuse(check, "%s is null; allowed: an address of device memory", name_of(check, address));
    if (*address % alignment != 0)
        return vgc_check_refuse(check, "%s is 0x%" PRIx64 "; allowed: multiples of %" PRIu32 ", the size of an element",
                                name_of(check, address), *address, alignment);
    check->rows[need->num_ranges] = *rows;
    need->ranges[need->num_ranges++] = (struct vgc_builtin_range){*address, bytes, param_of(check, address)};
    return true;
}

bool vgc_check_array(struct vgc_check *check, const uint64_t *address, uint64_t count, uint32_t bytes)
{
    struct vgc_rows rows = {.address = *address, .rows = 1};
    if (__builtin_mul_overflow(count, (uint64_t)bytes, &rows.row_bytes))
        return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    return add(check, address, &rows, bytes > 8 ? 8 : bytes);
}

bool vgc_check_vector(struct vgc_check *check, const uint64_t *address, int64_t n, const int64_t *increment)
{
    uint32_t bytes = vgc_builtin_type_bytes(check->builtin->type);
    struct vgc_rows rows = {*address, (uint64_t)n, bytes, (uint64_t)*increment * bytes};
    return vgc_check_number(check, increment, 1, VGC_BUILTIN_LONGEST, "") && add(check, address, &rows, bytes);
}

/* Matrices in a row are one long row to the checks: nobody else writes between them. */
static bool add_batch(struct vgc_check *check, const uint64_t *address, const struct vgc_matrices *matrices,
                      const struct vgc_rows *one)
{
    uint32_t bytes = vgc_builtin_type_bytes(check->builtin->type);
    uint64_t each, all;
    if (!extent(one, &each))
        return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    int64_t least = matrices->written ? (int64_t)(each / bytes) : 0;
    if (!vgc_check_number(check, matrices->stride, least, VGC_BUILTIN_LONGEST,
                          matrices->written ? "the elements of a matrix" : ""))
        return false;
    uint64_t stride = (uint64_t)*matrices->stride * bytes;
    if (__builtin_mul_overflow((uint64_t)(matrices->batch - 1), stride, &all) ||
        __builtin_add_overflow(all, each, &all))
        return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    struct vgc_rows whole = {.address = *address, .rows = 1, .row_bytes = all};
    return add(check, address, &whole, bytes);
}

bool vgc_check_matrices(struct vgc_check *check, const uint64_t *address, const struct vgc_matrices *matrices)
{
    uint32_t bytes = vgc_builtin_type_bytes(check->builtin->type);
    int64_t least = matrices->columns > 1 ? matrices->columns : 1;
    if (!vgc_check_number(check, matrices->ld, least, VGC_BUILTIN_LONGEST, "from the columns of the matrix on"))
        return false;
    struct vgc_rows one = {*address, (uint64_t)matrices->rows, (uint64_t)matrices->columns * bytes,
                           (uint64_t)*matrices->ld * bytes};
    if (matrices->batch == 0 || matrices->rows == 0 || matrices->columns == 0)
        return true;
    if (matrices->batch == 1)
        return add(check, address, &one, bytes);
    return add_batch(check, address, matrices, &one);
}

bool vgc_check_shape(struct vgc_check *check, const int64_t *shape, uint64_t *count)
{
    for (uint32_t i = 0; i < VGC_BUILTIN_RANK; i++)
        if (!vgc_check_length(check, &shape[i]))
            return false;
    return vgc_check_product(check, count, "shape0 * shape1 * shape2 * shape3", VGC_BUILTIN_RANK, shape);
}

/* The gaps between elements count as accessed. */
bool vgc_check_strided(struct vgc_check *check, const uint64_t *address, uint32_t bytes, const int64_t *shape,
                       const int64_t *strides)
{
    struct vgc_rows all = {.address = *address, .rows = 1};
    uint64_t last = 0, distance, count;
    for (uint32_t i = 0; i < VGC_BUILTIN_RANK; i++) {
        if (!vgc_check_number(check, &strides[i], 0, VGC_BUILTIN_LONGEST, ""))
            return false;
        if (__builtin_mul_overflow((uint64_t)shape[i] - 1, (uint64_t)strides[i], &distance) ||
            __builtin_add_overflow(last, distance, &last))
            return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    }
    if (__builtin_add_overflow(last, 1, &count) || __builtin_mul_overflow(count, (uint64_t)bytes, &all.row_bytes))
        return vgc_check_refuse(check, "%s takes more bytes than there are addresses", name_of(check, address));
    return add(check, address, &all, bytes > 8 ? 8 : bytes);
}

/* ---- overlaps ------------------------------------------------------------------------------------------------- */

/* Whether rows of the same stride pass each other by, as two blocks of one matrix do. */
static bool rows_pass(const struct vgc_rows *a, const struct vgc_rows *b)
{
    uint64_t stride = a->rows > 1 ? a->stride : b->stride;
    if ((a->rows > 1 && b->rows > 1 && a->stride != b->stride) || stride == 0)
        return false;
    if (a->row_bytes > stride || b->row_bytes > stride)
        return false;
    uint64_t shift = b->address >= a->address ? (b->address - a->address) % stride
                                              : (stride - (a->address - b->address) % stride) % stride;
    return shift >= a->row_bytes && stride - shift >= b->row_bytes;
}

static bool overlap(const struct vgc_check *check, uint32_t i, uint32_t j)
{
    const struct vgc_builtin_range *a = &check->need->ranges[i], *b = &check->need->ranges[j];
    if (a->address + a->bytes <= b->address || b->address + b->bytes <= a->address)
        return false;
    return !rows_pass(&check->rows[i], &check->rows[j]);
}

static bool is_among(const struct vgc_check *check, uint32_t param, const uint64_t *const *addresses, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (addresses[i] != NULL && param_of(check, addresses[i]) == param)
            return true;
    return false;
}

bool vgc_check_inputs_apart(struct vgc_check *check, const uint64_t *const *in_place, uint32_t count,
                            const uint64_t *out)
{
    const struct vgc_builtin_param *params = check->builtin->params;
    const struct vgc_builtin_range *ranges = check->need->ranges;
    for (uint32_t i = 0; i < check->need->num_ranges; i++)
        for (uint32_t j = i + 1; j < check->need->num_ranges; j++) {
            const struct vgc_builtin_param *a = &params[ranges[i].param], *b = &params[ranges[j].param];
            bool may_be_same =
                ranges[j].param == param_of(check, out) && is_among(check, ranges[i].param, in_place, count);
            bool is_same = may_be_same && ranges[i].address == ranges[j].address;
            if ((a->use == VGC_USE_IN && b->use == VGC_USE_IN) || is_same || !overlap(check, i, j))
                continue;
            return vgc_check_refuse(check, "%s and %s overlap; allowed: %s", a->name, b->name,
                                    may_be_same ? "the same address, or memory apart" : "memory apart");
        }
    return true;
}

bool vgc_check_apart(struct vgc_check *check, const uint64_t *in_place, const uint64_t *out)
{
    return vgc_check_inputs_apart(check, &in_place, 1, out);
}
