/* Reductions along one axis, and running ones. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

static const struct vgc_builtin_param REDUCE[] = {
    VGC_PARAM(vgc_reduce_params, in, POINTER, IN, "array (outer, n, inner)"),
    VGC_PARAM(vgc_reduce_params, out, POINTER, OUT, "array (outer, inner)"),
    VGC_PARAM(vgc_reduce_params, outer, INTEGER, VALUE, "product of the lengths before the axis"),
    VGC_PARAM(vgc_reduce_params, n, INTEGER, VALUE, "length of the axis"),
    VGC_PARAM(vgc_reduce_params, inner, INTEGER, VALUE, "product of the lengths behind the axis"),
};

static const struct vgc_builtin_param SCAN[] = {
    VGC_PARAM(vgc_scan_params, in, POINTER, IN, "array (outer, n)"),
    VGC_PARAM(vgc_scan_params, out, POINTER, OUT, "array (outer, n); may be in, if the elements have one size"),
    VGC_PARAM(vgc_scan_params, outer, INTEGER, VALUE, "number of rows"),
    VGC_PARAM(vgc_scan_params, n, INTEGER, VALUE, "length of a row"),
    VGC_PARAM(vgc_scan_params, exclusive, INTEGER, VALUE, "1: without the element itself; 0: with it"),
};

/* Bytes of an element of the result: sums and products of integers have 64 bits, as have positions. */
static uint32_t result_bytes(const struct vgc_builtin *builtin)
{
    bool is_float = builtin->type == VGC_TYPE_F32 || builtin->type == VGC_TYPE_F64;
    switch (builtin->function) {
    case VGC_FN_ARGMIN:
    case VGC_FN_ARGMAX:
        return 8;
    case VGC_FN_SUM:
    case VGC_FN_PROD:
    case VGC_FN_SCAN_SUM:
    case VGC_FN_SCAN_PROD:
        return is_float ? vgc_builtin_type_bytes(builtin->type) : 8;
    default:
        return vgc_builtin_type_bytes(builtin->type);
    }
}

static int check_reduce(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_reduce_params *p = params;
    const int64_t lengths[] = {p->outer, p->inner, p->n};
    uint64_t read, written;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!vgc_check_length(&check, &p->outer) || !vgc_check_length(&check, &p->n) ||
        !vgc_check_length(&check, &p->inner) || !vgc_check_product(&check, &written, "outer * inner", 2, lengths) ||
        !vgc_check_product(&check, &read, "outer * n * inner", 3, lengths))
        return -EINVAL;
    bool has_neutral =
        builtin->function == VGC_FN_SUM || builtin->function == VGC_FN_PROD || builtin->type == VGC_TYPE_B8;
    if (p->n == 0 && written > 0 && !has_neutral) {
        vgc_check_refuse(&check, "n is 0; allowed: 1 or more, where there is a result");
        return -EINVAL;
    }
    bool is_allowed = vgc_check_array(&check, &p->in, read, vgc_builtin_type_bytes(builtin->type)) &&
                      vgc_check_array(&check, &p->out, written, result_bytes(builtin)) &&
                      vgc_check_apart(&check, NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

static int check_scan(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_scan_params *p = params;
    const int64_t lengths[] = {p->outer, p->n};
    uint32_t read = vgc_builtin_type_bytes(builtin->type), written = result_bytes(builtin);
    uint64_t count;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed =
        vgc_check_length(&check, &p->outer) && vgc_check_length(&check, &p->n) &&
        vgc_check_flag(&check, &p->exclusive) && vgc_check_product(&check, &count, "outer * n", 2, lengths) &&
        vgc_check_array(&check, &p->in, count, read) && vgc_check_array(&check, &p->out, count, written) &&
        vgc_check_apart(&check, read == written ? &p->in : NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

#define REDUCE_ROW(name_, suffix, function_, type_, summary_, numpy_, limits_, tolerance_)                             \
    {.name = "reduce." name_ "_" suffix,                                                                               \
     .summary = summary_,                                                                                              \
     .numpy = numpy_,                                                                                                  \
     .limits = limits_,                                                                                                \
     .tolerance = tolerance_,                                                                                          \
     .function = VGC_FN_##function_,                                                                                   \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_reduce_params, REDUCE),                                                                             \
     .check = check_reduce}

#define SCAN_ROW(name_, suffix, function_, type_, summary_, numpy_, limits_, tolerance_)                               \
    {.name = "scan." name_ "_" suffix,                                                                                 \
     .summary = summary_,                                                                                              \
     .numpy = numpy_,                                                                                                  \
     .limits = limits_,                                                                                                \
     .tolerance = tolerance_,                                                                                          \
     .function = VGC_FN_SCAN_##function_,                                                                              \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_scan_params, SCAN),                                                                                 \
     .check = check_scan}

#define WIDE "results of integers have 64 bits, int64 or uint64"
#define WIDE_SUM WIDE "; of b8, int64"
#define WRAPS "exact, modulo 2^64"
#define PAIRWISE "a few roundings of the sum of absolute values: added in pairs"
#define PRODUCT                                                                                                        \
    "n roundings; where some neighbours alone have a product beyond the type, results may be 0, infinite or NaN"
#define NOT_EMPTY                                                                                                      \
    "n is 1 or more where there is a result, but for b8, whose results are then those of numpy; a NaN is the result "  \
    "of what contains one"
#define FIRST "results are int64; the first of equal elements; a NaN comes before all numbers; n is 1 or more"
#define PREFIX "a few roundings of the sum of absolute values before each element"
#define NEUTRAL                                                                                                        \
    "the first element of an exclusive one is the largest of the type, +inf for floats; NaN stays from its place on"
#define LOWEST                                                                                                         \
    "the first element of an exclusive one is the least of the type, -inf for floats; NaN stays from its place on"

/* Rows of a function for all types; `inexact` is the tolerance of floats. */
#define ROWS(ROW, name, FUNCTION, summary, numpy, limits, exact, inexact)                                              \
    ROW(name, "i32", FUNCTION, I32, summary, numpy, limits, exact),                                                    \
        ROW(name, "i64", FUNCTION, I64, summary, numpy, limits, exact),                                                \
        ROW(name, "u32", FUNCTION, U32, summary, numpy, limits, exact),                                                \
        ROW(name, "u64", FUNCTION, U64, summary, numpy, limits, exact),                                                \
        ROW(name, "f32", FUNCTION, F32, summary, numpy, limits, inexact),                                              \
        ROW(name, "f64", FUNCTION, F64, summary, numpy, limits, inexact)

static const struct vgc_builtin REDUCTIONS[] = {
    ROWS(REDUCE_ROW, "sum", SUM, "sums along an axis", "out = a.sum(axis=1)", WIDE_SUM, WRAPS, PAIRWISE),
    REDUCE_ROW("sum", "b8", SUM, B8, "sums along an axis", "out = a.sum(axis=1)", WIDE_SUM, WRAPS),
    ROWS(REDUCE_ROW, "prod", PROD, "products along an axis", "out = a.prod(axis=1)", WIDE, WRAPS, PRODUCT),
    ROWS(REDUCE_ROW, "min", MIN, "least elements along an axis", "out = a.min(axis=1)", NOT_EMPTY, "exact", "exact"),
    REDUCE_ROW("min", "b8", MIN, B8, "least elements along an axis", "out = a.all(axis=1)", NOT_EMPTY, "exact"),
    ROWS(REDUCE_ROW, "max", MAX, "largest elements along an axis", "out = a.max(axis=1)", NOT_EMPTY, "exact", "exact"),
    REDUCE_ROW("max", "b8", MAX, B8, "largest elements along an axis", "out = a.any(axis=1)", NOT_EMPTY, "exact"),
    ROWS(REDUCE_ROW, "argmin", ARGMIN, "positions of the least elements", "out = a.argmin(axis=1)", FIRST, "exact",
         "exact"),
    ROWS(REDUCE_ROW, "argmax", ARGMAX, "positions of the largest elements", "out = a.argmax(axis=1)", FIRST, "exact",
         "exact"),
};

static const struct vgc_builtin SCANS[] = {
    ROWS(SCAN_ROW, "sum", SUM, "running sums", "out = np.cumsum(a, axis=1)", WIDE, WRAPS, PREFIX),
    ROWS(SCAN_ROW, "prod", PROD, "running products", "out = np.cumprod(a, axis=1)", WIDE, WRAPS, PRODUCT),
    ROWS(SCAN_ROW, "min", MIN, "running minima", "out = np.minimum.accumulate(a, axis=1)", NEUTRAL, "exact", "exact"),
    ROWS(SCAN_ROW, "max", MAX, "running maxima", "out = np.maximum.accumulate(a, axis=1)", LOWEST, "exact", "exact"),
};

const struct vgc_builtin_group vgc_builtin_reduce = {
    "reduce",
    "reductions along one axis",
    REDUCTIONS,
    VGC_LENGTH_OF(REDUCTIONS),
};

const struct vgc_builtin_group vgc_builtin_scan = {
    "scan",
    "running reductions along the last axis",
    SCANS,
    VGC_LENGTH_OF(SCANS),
};
