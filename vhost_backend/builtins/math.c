/* Functions of single elements. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

#define SHAPE "length of this axis, 1 if the arrays have fewer; axis 0 is the outermost"
#define STRIDE(array) "elements from one of " array " to the next along this axis; 0: the same one throughout"

static const struct vgc_builtin_param UNARY[] = {
    VGC_AXES_PARAMS(vgc_unary_params, shape, SHAPE),
    VGC_PARAM(vgc_unary_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_unary_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_unary_params, out, POINTER, OUT, "array of that shape; may be a if that has no gaps"),
};

static const struct vgc_builtin_param REAL[] = {
    VGC_AXES_PARAMS(vgc_unary_params, shape, SHAPE),
    VGC_PARAM(vgc_unary_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_unary_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_unary_params, out, POINTER, OUT, "array of that shape, of real numbers"),
};

static const struct vgc_builtin_param BINARY[] = {
    VGC_AXES_PARAMS(vgc_binary_params, shape, SHAPE),
    VGC_PARAM(vgc_binary_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_binary_params, b, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, b_stride, STRIDE("b")),
    VGC_PARAM(vgc_binary_params, out, POINTER, OUT, "array of that shape; may be a or b if that has no gaps"),
};

static const struct vgc_builtin_param COMPARISON[] = {
    VGC_AXES_PARAMS(vgc_binary_params, shape, SHAPE),
    VGC_PARAM(vgc_binary_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_binary_params, b, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, b_stride, STRIDE("b")),
    VGC_PARAM(vgc_binary_params, out, POINTER, OUT, "array of that shape: bytes, 1 for true and 0 for false"),
};

static const struct vgc_builtin_param JOIN[] = {
    VGC_AXES_PARAMS(vgc_binary_params, shape, SHAPE),
    VGC_PARAM(vgc_binary_params, a, POINTER, IN, "real parts, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_binary_params, b, POINTER, IN, "imaginary parts, with strides"),
    VGC_AXES_PARAMS(vgc_binary_params, b_stride, STRIDE("b")),
    VGC_PARAM(vgc_binary_params, out, POINTER, OUT, "array of that shape, of complex numbers"),
};

static const struct vgc_builtin_param CONVERT[] = {
    VGC_AXES_PARAMS(vgc_convert_params, shape, SHAPE),
    VGC_PARAM(vgc_convert_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_convert_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_convert_params, out, POINTER, OUT,
              "array of that shape; may be a if that has no gaps and elements of the same size"),
    VGC_PARAM(vgc_convert_params, to, INTEGER, VALUE,
              "type of out: 0 f16, 1 f32, 2 f64, 3 i32, 4 i64, 5 u32, 6 u64, 7 b8"),
};

static const struct vgc_builtin_param WHERE[] = {
    VGC_AXES_PARAMS(vgc_where_params, shape, SHAPE),
    VGC_PARAM(vgc_where_params, condition, POINTER, IN, "array of that shape, with strides: b8"),
    VGC_AXES_PARAMS(vgc_where_params, condition_stride, STRIDE("condition")),
    VGC_PARAM(vgc_where_params, a, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_where_params, a_stride, STRIDE("a")),
    VGC_PARAM(vgc_where_params, b, POINTER, IN, "array of that shape, with strides"),
    VGC_AXES_PARAMS(vgc_where_params, b_stride, STRIDE("b")),
    VGC_PARAM(vgc_where_params, out, POINTER, OUT, "array of that shape; may be a or b if that has no gaps"),
};

enum { MOST_OPERANDS = 3 };

/* Bytes of an element of a and b. */
static uint32_t operand_bytes(const struct vgc_builtin *builtin)
{
    bool is_complex = builtin->function >= VGC_FN_COMPLEX_ADD && builtin->function <= VGC_FN_COMPLEX_ANGLE;
    return vgc_builtin_type_bytes(builtin->type) * (is_complex ? 2 : 1);
}

/* Bytes of an element of out. */
static uint32_t result_bytes(const struct vgc_builtin *builtin)
{
    switch (builtin->function) {
    case VGC_FN_EQUAL:
    case VGC_FN_NOT_EQUAL:
    case VGC_FN_LESS:
    case VGC_FN_LESS_EQUAL:
    case VGC_FN_COMPLEX_EQUAL:
    case VGC_FN_COMPLEX_NOT_EQUAL:
        return 1;
    case VGC_FN_COMPLEX_ABSOLUTE:
    case VGC_FN_COMPLEX_ANGLE:
        return vgc_builtin_type_bytes(builtin->type);
    case VGC_FN_COMPLEX_JOIN:
        return 2 * vgc_builtin_type_bytes(builtin->type);
    default:
        return operand_bytes(builtin);
    }
}

/* An input. */
struct operand {
    const uint64_t *address;
    const int64_t *strides;
    uint32_t bytes; /* of an element */
};

/* Whether an array of that shape, not empty, lies as `out` does. */
static bool has_no_gaps(const int64_t *shape, const int64_t *strides)
{
    int64_t wanted = 1;
    for (uint32_t i = VGC_BUILTIN_RANK; i-- > 0;) {
        if (shape[i] > 1 && strides[i] != wanted)
            return false;
        wanted *= shape[i];
    }
    return true;
}

static int check_elements(struct vgc_check *check, const int64_t *shape, const struct operand *operands,
                          uint32_t num_operands, const uint64_t *out, uint32_t out_bytes)
{
    const uint64_t *in_place[MOST_OPERANDS] = {NULL};
    uint64_t count;
    if (!vgc_check_shape(check, shape, &count))
        return -EINVAL;
    if (count == 0)
        return 0;
    for (uint32_t i = 0; i < num_operands; i++) {
        if (!vgc_check_strided(check, operands[i].address, operands[i].bytes, shape, operands[i].strides))
            return -EINVAL;
        if (operands[i].bytes == out_bytes && has_no_gaps(shape, operands[i].strides))
            in_place[i] = operands[i].address;
    }
    bool is_allowed = vgc_check_array(check, out, count, out_bytes) &&
                      vgc_check_inputs_apart(check, in_place, VGC_LENGTH_OF(in_place), out);
    return is_allowed ? 0 : -EINVAL;
}

static int check_unary(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_unary_params *p = params;
    uint32_t bytes = operand_bytes(builtin);
    const struct operand operands[] = {{&p->a, p->a_stride, bytes}};
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    return check_elements(&check, p->shape, operands, 1, &p->out, result_bytes(builtin));
}

static int check_binary(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_binary_params *p = params;
    uint32_t bytes = operand_bytes(builtin);
    const struct operand operands[] = {{&p->a, p->a_stride, bytes}, {&p->b, p->b_stride, bytes}};
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    return check_elements(&check, p->shape, operands, 2, &p->out, result_bytes(builtin));
}

static int check_convert(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                         char *why)
{
    const struct vgc_convert_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    const struct operand operands[] = {{&p->a, p->a_stride, bytes}};
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (p->to < 0 || p->to >= VGC_NUM_TYPES) {
        vgc_check_refuse(&check, "to is %d; allowed: 0 to %d, a type of elements", p->to, VGC_NUM_TYPES - 1);
        return -EINVAL;
    }
    return check_elements(&check, p->shape, operands, 1, &p->out, vgc_builtin_type_bytes((uint32_t)p->to));
}

static int check_where(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_where_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    const struct operand operands[] = {
        {&p->condition, p->condition_stride, 1}, {&p->a, p->a_stride, bytes}, {&p->b, p->b_stride, bytes}};
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    return check_elements(&check, p->shape, operands, 3, &p->out, bytes);
}

#define MATH_ROW(name_, function_, type_, block_, table_, check_, summary_, numpy_, limits_, tolerance_)               \
    {.name = "math." name_,                                                                                            \
     .summary = summary_,                                                                                              \
     .numpy = numpy_,                                                                                                  \
     .limits = limits_,                                                                                                \
     .tolerance = tolerance_,                                                                                          \
     .function = VGC_FN_##function_,                                                                                   \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(block_, table_),                                                                                        \
     .check = check_}

#define UNARY_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                            \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_unary_params, UNARY, check_unary, summary, "out = np." name "(a)",   \
             limits, tolerance)

#define BINARY_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                           \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_binary_params, BINARY, check_binary, summary,                        \
             "out = np." name "(a, b)", limits, tolerance)

#define COMPARISON_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                       \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_binary_params, COMPARISON, check_binary, summary,                    \
             "out = np." name "(a, b).view(np.uint8)", limits, tolerance)

#define REAL_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                             \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_unary_params, REAL, check_unary, summary, "out = np." name "(a)",    \
             limits, tolerance)

#define JOIN_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                             \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_binary_params, JOIN, check_binary, summary,                          \
             "out.real, out.imag = a, b", limits, tolerance)

#define CONVERT_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                          \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_convert_params, CONVERT, check_convert, summary,                     \
             "out = a.astype(to)", limits, tolerance)

#define WHERE_ROW(name, suffix, FUNCTION, TYPE, summary, limits, tolerance)                                            \
    MATH_ROW(name "_" suffix, FUNCTION, TYPE, vgc_where_params, WHERE, check_where, summary,                           \
             "out = np.where(condition, a, b)", limits, tolerance)

/* Rows of a function of complex numbers, with its own number. */
#define COMPLEX(ROW, name, FUNCTION, summary, limits, tolerance)                                                       \
    ROW(name, "c64", COMPLEX_##FUNCTION, F32, summary, limits, tolerance),                                             \
        ROW(name, "c128", COMPLEX_##FUNCTION, F64, summary, limits, tolerance)

/* Rows of a function for some types. */
#define INTEGERS(ROW, name, FUNCTION, summary, limits, tolerance)                                                      \
    ROW(name, "i32", FUNCTION, I32, summary, limits, tolerance),                                                       \
        ROW(name, "i64", FUNCTION, I64, summary, limits, tolerance),                                                   \
        ROW(name, "u32", FUNCTION, U32, summary, limits, tolerance),                                                   \
        ROW(name, "u64", FUNCTION, U64, summary, limits, tolerance)
#define FLOATS(ROW, name, FUNCTION, summary, limits, tolerance)                                                        \
    ROW(name, "f16", FUNCTION, F16, summary, limits, tolerance),                                                       \
        ROW(name, "f32", FUNCTION, F32, summary, limits, tolerance),                                                   \
        ROW(name, "f64", FUNCTION, F64, summary, limits, tolerance)
#define INEXACT(name, FUNCTION, summary)                                                                               \
    UNARY_ROW(name, "f16", FUNCTION, F16, summary, NULL, "halves: 1 unit in the last place"),                          \
        UNARY_ROW(name, "f32", FUNCTION, F32, summary, NULL, FOUR),                                                    \
        UNARY_ROW(name, "f64", FUNCTION, F64, summary, NULL, FOUR)
#define ALL(ROW, name, FUNCTION, summary, limits, exact, inexact)                                                      \
    FLOATS(ROW, name, FUNCTION, summary, limits, inexact), INTEGERS(ROW, name, FUNCTION, summary, limits, exact)
#define ALL_AND_BOOL(ROW, name, FUNCTION, summary, limits, exact, inexact)                                             \
    ALL(ROW, name, FUNCTION, summary, limits, exact, inexact), ROW(name, "b8", FUNCTION, B8, summary, limits, exact)

#define EXACT "exact"
#define WRAPS "exact, modulo 2^32 or 2^64"
#define ROUNDED "rounded once"
#define CONVERTED "rounded once to floats; exact from integers to integers, modulo 2^32 or 2^64"
#define FOUR "4 units in the last place"
#define ONE "1 unit in the last place"
#define PRODUCTS "complex numbers: 3 roundings of the product of the absolute values"
#define QUOTIENTS "complex numbers: 8 roundings of the quotient of the absolute values"
#define ZEROS "NaN if either is; of 0.0 and -0.0 either may be the result"
#define NO_DIVISOR "0 where b is 0"
#define COPIED "elements are copied as they are: bytes of b8 other than 0 and 1, too"

static const struct vgc_builtin BUILTINS[] = {
    ALL(BINARY_ROW, "add", ADD, "sums", NULL, WRAPS, ROUNDED),
    COMPLEX(BINARY_ROW, "add", ADD, "sums", NULL, ROUNDED),
    ALL(BINARY_ROW, "subtract", SUBTRACT, "differences", NULL, WRAPS, ROUNDED),
    COMPLEX(BINARY_ROW, "subtract", SUBTRACT, "differences", NULL, ROUNDED),
    ALL(BINARY_ROW, "multiply", MULTIPLY, "products", NULL, WRAPS, ROUNDED),
    COMPLEX(BINARY_ROW, "multiply", MULTIPLY, "products", NULL, PRODUCTS),
    FLOATS(BINARY_ROW, "divide", DIVIDE, "quotients", NULL, ROUNDED),
    COMPLEX(BINARY_ROW, "divide", DIVIDE, "quotients", NULL, QUOTIENTS),
    INTEGERS(BINARY_ROW, "floor_divide", FLOOR_DIVIDE, "quotients, rounded down", NO_DIVISOR, WRAPS),
    INTEGERS(BINARY_ROW, "remainder", REMAINDER, "remainders, with the sign of b", NO_DIVISOR, EXACT),
    FLOATS(BINARY_ROW, "power", POWER, "powers", NULL, ONE),
    ALL_AND_BOOL(BINARY_ROW, "maximum", MAXIMUM, "the larger elements", ZEROS, EXACT, EXACT),
    ALL_AND_BOOL(BINARY_ROW, "minimum", MINIMUM, "the lesser elements", ZEROS, EXACT, EXACT),
    ALL_AND_BOOL(COMPARISON_ROW, "equal", EQUAL, "whether elements are equal", NULL, EXACT, EXACT),
    COMPLEX(COMPARISON_ROW, "equal", EQUAL, "whether elements are equal", NULL, EXACT),
    ALL_AND_BOOL(COMPARISON_ROW, "not_equal", NOT_EQUAL, "whether elements differ", NULL, EXACT, EXACT),
    COMPLEX(COMPARISON_ROW, "not_equal", NOT_EQUAL, "whether elements differ", NULL, EXACT),
    ALL_AND_BOOL(COMPARISON_ROW, "less", LESS, "whether elements of a are less than those of b", NULL, EXACT, EXACT),
    ALL_AND_BOOL(COMPARISON_ROW, "less_equal", LESS_EQUAL, "whether elements of a are those of b, or less", NULL, EXACT,
                 EXACT),
    ALL(UNARY_ROW, "negative", NEGATIVE, "elements with the other sign", NULL, WRAPS, EXACT),
    COMPLEX(UNARY_ROW, "negative", NEGATIVE, "elements with the other sign", NULL, EXACT),
    ALL(UNARY_ROW, "absolute", ABSOLUTE, "absolute values", NULL, WRAPS, EXACT),
    COMPLEX(REAL_ROW, "absolute", ABSOLUTE, "absolute values", NULL, "2 units in the last place"),
    ALL(UNARY_ROW, "square", SQUARE, "squares", NULL, WRAPS, ROUNDED),
    ALL(UNARY_ROW, "sign", SIGN, "signs: -1, 0 or 1", NULL, EXACT, EXACT),
    FLOATS(UNARY_ROW, "sqrt", SQRT, "square roots", NULL, ROUNDED),
    FLOATS(UNARY_ROW, "reciprocal", RECIPROCAL, "1 / a", NULL, ROUNDED),
    INEXACT("exp", EXP, "exponential function"),
    INEXACT("log", LOG, "natural logarithms"),
    INEXACT("sin", SIN, "sines"),
    INEXACT("cos", COS, "cosines"),
    INEXACT("tanh", TANH, "hyperbolic tangents"),
    FLOATS(UNARY_ROW, "floor", FLOOR, "the next whole numbers below", NULL, EXACT),
    FLOATS(UNARY_ROW, "ceil", CEIL, "the next whole numbers above", NULL, EXACT),
    FLOATS(UNARY_ROW, "rint", RINT, "the nearest whole numbers, even ones of two", NULL, EXACT),
    FLOATS(UNARY_ROW, "trunc", TRUNC, "the next whole numbers towards 0", NULL, EXACT),
    ALL_AND_BOOL(
        CONVERT_ROW, "convert", CONVERT, "elements as those of another type",
        "floats are rounded towards 0 to integers; those out of range become the least or the largest, and NaN 0; all "
        "but 0 become true",
        CONVERTED, CONVERTED),
    ALL_AND_BOOL(WHERE_ROW, "where", WHERE, "elements of a where a condition is true, and of b elsewhere", COPIED,
                 EXACT, EXACT),
    COMPLEX(UNARY_ROW, "conjugate", CONJUGATE, "complex conjugates", NULL, EXACT),
    COMPLEX(REAL_ROW, "angle", ANGLE, "angles to the positive real axis, in radians", NULL, FOUR),
    COMPLEX(JOIN_ROW, "join", JOIN, "complex numbers of real parts and imaginary parts", NULL, EXACT),
};

const struct vgc_builtin_group vgc_builtin_math = {
    "math",
    "functions of single elements, of arrays with up to four axes; strides of 0 broadcast, and out has no gaps",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
