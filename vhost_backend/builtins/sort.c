/* Sorting, and functions that sort or count. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

static const struct vgc_builtin_param KEYS[] = {
    VGC_PARAM(vgc_sort_params, in, POINTER, IN, "array (outer, n)"),
    VGC_PARAM(vgc_sort_params, out, POINTER, OUT, "array (outer, n); may be in"),
    VGC_PARAM(vgc_sort_params, outer, INTEGER, VALUE, "number of rows"),
    VGC_PARAM(vgc_sort_params, n, INTEGER, VALUE, "length of a row"),
    VGC_PARAM(vgc_sort_params, descending, INTEGER, VALUE, "1: the largest first; 0: the least first"),
};

static const struct vgc_builtin_param ARGSORT[] = {
    VGC_PARAM(vgc_sort_params, in, POINTER, IN, "array (outer, n)"),
    VGC_PARAM(vgc_sort_params, out, POINTER, OUT, "positions in each row, int64 (outer, n)"),
    VGC_PARAM(vgc_sort_params, outer, INTEGER, VALUE, "number of rows"),
    VGC_PARAM(vgc_sort_params, n, INTEGER, VALUE, "length of a row"),
    VGC_PARAM(vgc_sort_params, descending, INTEGER, VALUE, "1: the largest first; 0: the least first"),
};

static const struct vgc_builtin_param PAIRS[] = {
    VGC_PARAM(vgc_sort_pairs_params, keys, POINTER, IN, "array (outer, n)"),
    VGC_PARAM(vgc_sort_pairs_params, values, POINTER, IN, "array (outer, n) of value_bytes each"),
    VGC_PARAM(vgc_sort_pairs_params, keys_out, POINTER, OUT, "array (outer, n)"),
    VGC_PARAM(vgc_sort_pairs_params, values_out, POINTER, OUT, "array (outer, n) of value_bytes each"),
    VGC_PARAM(vgc_sort_pairs_params, outer, INTEGER, VALUE, "number of rows"),
    VGC_PARAM(vgc_sort_pairs_params, n, INTEGER, VALUE, "length of a row"),
    VGC_PARAM(vgc_sort_pairs_params, value_bytes, INTEGER, VALUE, "1, 2, 4 or 8"),
    VGC_PARAM(vgc_sort_pairs_params, descending, INTEGER, VALUE, "1: the largest first; 0: the least first"),
};

static const struct vgc_builtin_param UNIQUE[] = {
    VGC_PARAM(vgc_unique_params, in, POINTER, IN, "array (n)"),
    VGC_PARAM(vgc_unique_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_unique_params, out, POINTER, OUT,
              "array with room for n elements; those behind the result may change"),
    VGC_PARAM(vgc_unique_params, count, POINTER, OUT, "number of different elements, int64 (1)"),
};

static int check_sort(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_sort_params *p = params;
    const int64_t lengths[] = {p->outer, p->n};
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    bool gives_keys = builtin->function == VGC_FN_SORT_KEYS;
    uint64_t count;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->outer) && vgc_check_length(&check, &p->n) &&
                      vgc_check_flag(&check, &p->descending) &&
                      vgc_check_product(&check, &count, "outer * n", 2, lengths) &&
                      vgc_check_array(&check, &p->in, count, bytes) &&
                      vgc_check_array(&check, &p->out, count, gives_keys ? bytes : 8) &&
                      vgc_check_apart(&check, gives_keys ? &p->in : NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

static bool check_value_bytes(struct vgc_check *check, int32_t bytes)
{
    if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)
        return true;
    return vgc_check_refuse(check, "value_bytes is %d; allowed: 1, 2, 4 or 8", bytes);
}

static int check_pairs(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_sort_pairs_params *p = params;
    const int64_t lengths[] = {p->outer, p->n};
    uint32_t key_bytes = vgc_builtin_type_bytes(builtin->type), value_bytes = (uint32_t)p->value_bytes;
    uint64_t count;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->outer) && vgc_check_length(&check, &p->n) &&
                      check_value_bytes(&check, p->value_bytes) && vgc_check_flag(&check, &p->descending) &&
                      vgc_check_product(&check, &count, "outer * n", 2, lengths) &&
                      vgc_check_array(&check, &p->keys, count, key_bytes) &&
                      vgc_check_array(&check, &p->values, count, value_bytes) &&
                      vgc_check_array(&check, &p->keys_out, count, key_bytes) &&
                      vgc_check_array(&check, &p->values_out, count, value_bytes) &&
                      vgc_check_apart(&check, NULL, &p->keys_out);
    return is_allowed ? 0 : -EINVAL;
}

static int check_unique(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_unique_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_array(&check, &p->in, (uint64_t)p->n, bytes) &&
                      vgc_check_array(&check, &p->out, (uint64_t)p->n, bytes) &&
                      vgc_check_array(&check, &p->count, 1, 8) && vgc_check_apart(&check, NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

#define ORDER "NaN comes last in both orders, as the positive quiet one; -0.0 equals 0.0"

#define KEYS_ROW(suffix, type_)                                                                                        \
    {.name = "sort.keys_" suffix,                                                                                      \
     .summary = "sorts each row",                                                                                      \
     .numpy = "out = np.sort(a, axis=1); descending floats: -np.sort(-a, axis=1)",                                     \
     .limits = ORDER,                                                                                                  \
     .tolerance = "exact",                                                                                             \
     .function = VGC_FN_SORT_KEYS,                                                                                     \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_sort_params, KEYS),                                                                                 \
     .check = check_sort}

#define ARGSORT_ROW(suffix, type_)                                                                                     \
    {.name = "sort.argsort_" suffix,                                                                                   \
     .summary = "positions that would sort each row; equal elements stay in order",                                    \
     .numpy = "out = np.argsort(a, axis=1, kind='stable'); descending floats: of -a",                                  \
     .limits = ORDER,                                                                                                  \
     .tolerance = "exact",                                                                                             \
     .function = VGC_FN_ARGSORT,                                                                                       \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_sort_params, ARGSORT),                                                                              \
     .check = check_sort}

#define PAIRS_ROW(suffix, type_)                                                                                       \
    {.name = "sort.pairs_" suffix,                                                                                     \
     .summary = "sorts each row of keys, and values with them; equal keys stay in order",                              \
     .numpy = "i = np.argsort(keys, axis=1, kind='stable'); keys_out = np.take_along_axis(keys, i, 1); "               \
              "values_out = np.take_along_axis(values, i, 1)",                                                         \
     .limits = "NaN comes last in both orders; -0.0 equals 0.0",                                                       \
     .tolerance = "exact",                                                                                             \
     .function = VGC_FN_SORT_PAIRS,                                                                                    \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_sort_pairs_params, PAIRS),                                                                          \
     .check = check_pairs}

#define UNIQUE_ROW(suffix, type_)                                                                                      \
    {.name = "sort.unique_" suffix,                                                                                    \
     .summary = "different elements in order, and their number",                                                       \
     .numpy = "u = np.unique(a); count[0] = len(u); out[:len(u)] = u",                                                 \
     .limits = "all NaN are one, the last; of 0.0 and -0.0 either stands for both",                                    \
     .tolerance = "exact",                                                                                             \
     .function = VGC_FN_UNIQUE,                                                                                        \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_unique_params, UNIQUE),                                                                             \
     .check = check_unique}

#define ROWS(ROW) ROW("i32", I32), ROW("i64", I64), ROW("u32", U32), ROW("u64", U64), ROW("f32", F32), ROW("f64", F64)

static const struct vgc_builtin BUILTINS[] = {
    ROWS(KEYS_ROW),
    ROWS(ARGSORT_ROW),
    ROWS(PAIRS_ROW),
    ROWS(UNIQUE_ROW),
};

const struct vgc_builtin_group vgc_builtin_sort = {
    "sort",
    "sorting along the last axis",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
