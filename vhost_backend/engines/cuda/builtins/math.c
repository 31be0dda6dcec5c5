/* Plans of functions of single elements: one launch. */
#include "calls.h"
#include "planners.h"

static bool is_empty(const int64_t *shape)
{
    return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

/* An input. */
struct input {
    uint64_t address;
    const int64_t *strides;
};

/* Whether an axis, the next one to the outside, goes on where the last one ends, in all inputs. */
static bool is_joined(const struct math_call *call, const struct input *inputs, uint32_t num_inputs, uint32_t axis)
{
    bool is_joined = call->rank > 0;
    for (uint32_t i = 0; i < num_inputs && is_joined; i++)
        is_joined = (u64)inputs[i].strides[axis] == call->strides[i][call->rank - 1] * call->length[call->rank - 1];
    return is_joined;
}

/* A call whose elements are laid out. */
static struct math_call lay_out(const int64_t *shape, const struct input *inputs, uint32_t num_inputs)
{
    struct math_call call = {.count = 1, .length = {1, 1, 1, 1}};
    for (uint32_t axis = AXES; axis-- > 0;) {
        uint64_t length = (uint64_t)shape[axis];
        call.count *= length;
        if (length > 1 && is_joined(&call, inputs, num_inputs, axis)) {
            call.length[call.rank - 1] *= length;
        } else if (length > 1) {
            call.length[call.rank] = length;
            for (uint32_t i = 0; i < num_inputs; i++)
                call.strides[i][call.rank] = (uint64_t)inputs[i].strides[axis];
            call.rank++;
        }
    }
    if (call.rank == 0)
        call.rank = 1;
    for (uint32_t i = 0; i < num_inputs; i++)
        call.inputs[i] = inputs[i].address;
    return call;
}

/* Kernel of each function, `math_kernel_type`, and its operation if it has several. */
static const struct row {
    const char *kernel;
    uint32_t operation;
} ROWS[VGC_NUM_FUNCTIONS] = {
    [VGC_FN_ADD] = {"binary", MATH_ADD},
    [VGC_FN_SUBTRACT] = {"binary", MATH_SUBTRACT},
    [VGC_FN_MULTIPLY] = {"binary", MATH_MULTIPLY},
    [VGC_FN_DIVIDE] = {"divide", 0},
    [VGC_FN_FLOOR_DIVIDE] = {"floor_divide", 0},
    [VGC_FN_REMAINDER] = {"remainder", 0},
    [VGC_FN_POWER] = {"power", 0},
    [VGC_FN_MAXIMUM] = {"binary", MATH_MAXIMUM},
    [VGC_FN_MINIMUM] = {"binary", MATH_MINIMUM},
    [VGC_FN_EQUAL] = {"comparison", MATH_EQUAL},
    [VGC_FN_NOT_EQUAL] = {"comparison", MATH_NOT_EQUAL},
    [VGC_FN_LESS] = {"comparison", MATH_LESS},
    [VGC_FN_LESS_EQUAL] = {"comparison", MATH_LESS_EQUAL},
    [VGC_FN_NEGATIVE] = {"unary", MATH_NEGATIVE},
    [VGC_FN_ABSOLUTE] = {"unary", MATH_ABSOLUTE},
    [VGC_FN_SQUARE] = {"unary", MATH_SQUARE},
    [VGC_FN_SIGN] = {"unary", MATH_SIGN},
    [VGC_FN_SQRT] = {"unary", MATH_SQRT},
    [VGC_FN_RECIPROCAL] = {"unary", MATH_RECIPROCAL},
    [VGC_FN_EXP] = {"exp", 0},
    [VGC_FN_LOG] = {"log", 0},
    [VGC_FN_SIN] = {"sin", 0},
    [VGC_FN_COS] = {"cos", 0},
    [VGC_FN_TANH] = {"tanh", 0},
    [VGC_FN_FLOOR] = {"unary", MATH_FLOOR},
    [VGC_FN_CEIL] = {"unary", MATH_CEIL},
    [VGC_FN_RINT] = {"unary", MATH_RINT},
    [VGC_FN_TRUNC] = {"unary", MATH_TRUNC},
    [VGC_FN_CONVERT] = {"convert", 0},
    [VGC_FN_WHERE] = {"where", 0},
    [VGC_FN_COMPLEX_ADD] = {"complex_binary", MATH_ADD},
    [VGC_FN_COMPLEX_SUBTRACT] = {"complex_binary", MATH_SUBTRACT},
    [VGC_FN_COMPLEX_MULTIPLY] = {"complex_binary", MATH_MULTIPLY},
    [VGC_FN_COMPLEX_DIVIDE] = {"complex_binary", MATH_DIVIDE},
    [VGC_FN_COMPLEX_EQUAL] = {"complex_comparison", MATH_EQUAL},
    [VGC_FN_COMPLEX_NOT_EQUAL] = {"complex_comparison", MATH_NOT_EQUAL},
    [VGC_FN_COMPLEX_NEGATIVE] = {"complex_unary", MATH_NEGATIVE},
    [VGC_FN_COMPLEX_CONJUGATE] = {"complex_unary", MATH_CONJUGATE},
    [VGC_FN_COMPLEX_ABSOLUTE] = {"complex_real", MATH_ABSOLUTE},
    [VGC_FN_COMPLEX_ANGLE] = {"complex_real", MATH_ANGLE},
    [VGC_FN_COMPLEX_JOIN] = {"complex_join", 0},
};

/* Kernels for elements of a type; those that only copy elements, for elements of a size. */
static const char *kernel_type(const struct vgc_builtin *builtin)
{
    static const char *const BITS[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"};
    return builtin->function == VGC_FN_WHERE ? BITS[vgc_builtin_type_bytes(builtin->type)] : plan_type(builtin->type);
}

static void add(struct plan *plan, struct math_call call, uint32_t operation, uint64_t out)
{
    struct kernel_name stem = plan_kernel_of("math", ROWS[plan->builtin->function].kernel, NULL);
    struct kernel_name kernel = plan_kernel_of(stem.text, kernel_type(plan->builtin), NULL);
    call.operation = operation;
    call.out = out;
    plan_add(plan, &kernel, plan_blocks(plan, call.count, THREADS), 0, &call, sizeof(call));
}

static void plan_unary(struct plan *plan, const struct vgc_unary_params *p)
{
    const struct input inputs[] = {{p->a, p->a_stride}};
    add(plan, lay_out(p->shape, inputs, 1), ROWS[plan->builtin->function].operation, p->out);
}

static void plan_convert(struct plan *plan, const struct vgc_convert_params *p)
{
    const struct input inputs[] = {{p->a, p->a_stride}};
    add(plan, lay_out(p->shape, inputs, 1), (uint32_t)p->to, p->out);
}

static void plan_binary(struct plan *plan, const struct vgc_binary_params *p)
{
    const struct input inputs[] = {{p->a, p->a_stride}, {p->b, p->b_stride}};
    add(plan, lay_out(p->shape, inputs, 2), ROWS[plan->builtin->function].operation, p->out);
}

static void plan_where(struct plan *plan, const struct vgc_where_params *p)
{
    const struct input inputs[] = {{p->condition, p->condition_stride}, {p->a, p->a_stride}, {p->b, p->b_stride}};
    add(plan, lay_out(p->shape, inputs, 3), 0, p->out);
}

/* Whether a function has two inputs, of the same type. */
static bool is_binary(uint32_t function)
{
    return function <= VGC_FN_LESS_EQUAL || function == VGC_FN_COMPLEX_JOIN ||
           (function >= VGC_FN_COMPLEX_ADD && function <= VGC_FN_COMPLEX_NOT_EQUAL);
}

void plan_math(struct plan *plan, const void *params)
{
    uint32_t function = plan->builtin->function;
    if (is_empty(params)) /* the shape comes first in all blocks */
        return;
    if (function == VGC_FN_CONVERT)
        plan_convert(plan, params);
    else if (function == VGC_FN_WHERE)
        plan_where(plan, params);
    else if (is_binary(function))
        plan_binary(plan, params);
    else
        plan_unary(plan, params);
}
