/* Counting. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <math.h>

enum { MOST_BINS = 1 << 24 };

static const struct vgc_builtin_param HISTOGRAM[] = {
    VGC_PARAM(vgc_histogram_params, in, POINTER, IN, "array (n)"),
    VGC_PARAM(vgc_histogram_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_histogram_params, counts, POINTER, OUT, "int64 (bins)"),
    VGC_PARAM(vgc_histogram_params, bins, INTEGER, VALUE, "bins of equal width, 1 to 16777216"),
    VGC_PARAM(vgc_histogram_params, low, FLOAT, VALUE, "begin of the first bin"),
    VGC_PARAM(vgc_histogram_params, high, FLOAT, VALUE, "end of the last bin, which belongs to it"),
};

static const struct vgc_builtin_param BINCOUNT[] = {
    VGC_PARAM(vgc_bincount_params, in, POINTER, IN, "array (n)"),
    VGC_PARAM(vgc_bincount_params, n, INTEGER, VALUE, "elements"),
    VGC_PARAM(vgc_bincount_params, counts, POINTER, OUT, "int64 (bins)"),
    VGC_PARAM(vgc_bincount_params, bins, INTEGER, VALUE, "more than the largest element, at most 16777216"),
};

static int check_histogram(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                           char *why)
{
    const struct vgc_histogram_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!vgc_check_length(&check, &p->n) || !vgc_check_number(&check, &p->bins, 1, MOST_BINS, ""))
        return -EINVAL;
    if (!isfinite(p->low) || !isfinite(p->high) || !(p->low < p->high) || !isfinite(p->high - p->low)) {
        vgc_check_refuse(&check, "low is %g and high is %g; allowed: finite numbers, the former less", p->low, p->high);
        return -EINVAL;
    }
    bool is_allowed = vgc_check_array(&check, &p->in, (uint64_t)p->n, vgc_builtin_type_bytes(builtin->type)) &&
                      vgc_check_array(&check, &p->counts, (uint64_t)p->bins, 8) &&
                      vgc_check_apart(&check, NULL, &p->counts);
    return is_allowed ? 0 : -EINVAL;
}

static int check_bincount(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                          char *why)
{
    const struct vgc_bincount_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_number(&check, &p->bins, 0, MOST_BINS, "") &&
                      vgc_check_array(&check, &p->in, (uint64_t)p->n, vgc_builtin_type_bytes(builtin->type)) &&
                      vgc_check_array(&check, &p->counts, (uint64_t)p->bins, 8) &&
                      vgc_check_apart(&check, NULL, &p->counts);
    return is_allowed ? 0 : -EINVAL;
}

#define HISTOGRAM_ROW(suffix, type_)                                                                                   \
    {.name = "count.histogram_" suffix,                                                                                \
     .summary = "counts elements in bins of equal width",                                                              \
     .numpy = "counts = np.histogram(a, bins, (low, high))[0]",                                                        \
     .limits = "elements outside of the range, and NaN, are not counted",                                              \
     .tolerance = "exact: edges are those of np.linspace(low, high, bins + 1) in doubles",                             \
     .function = VGC_FN_HISTOGRAM,                                                                                     \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_histogram_params, HISTOGRAM),                                                                       \
     .check = check_histogram}

#define BINCOUNT_ROW(suffix, type_)                                                                                    \
    {.name = "count.bincount_" suffix,                                                                                 \
     .summary = "counts how often each number occurs",                                                                 \
     .numpy = "counts = np.bincount(a, minlength=bins)",                                                               \
     .limits = "the call fails if an element is negative, or bins or more",                                            \
     .tolerance = "exact",                                                                                             \
     .function = VGC_FN_BINCOUNT,                                                                                      \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_bincount_params, BINCOUNT),                                                                         \
     .check = check_bincount}

static const struct vgc_builtin BUILTINS[] = {
    HISTOGRAM_ROW("i32", I32), HISTOGRAM_ROW("i64", I64), HISTOGRAM_ROW("u32", U32), HISTOGRAM_ROW("u64", U64),
    HISTOGRAM_ROW("f32", F32), HISTOGRAM_ROW("f64", F64), BINCOUNT_ROW("i32", I32),  BINCOUNT_ROW("i64", I64),
    BINCOUNT_ROW("u32", U32),  BINCOUNT_ROW("u64", U64),
};

const struct vgc_builtin_group vgc_builtin_count = {
    "count",
    "counting",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
