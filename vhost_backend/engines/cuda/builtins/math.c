/* Plans of functions of single elements: one launch. */
#include "calls.h"
#include "planners.h"

static bool is_empty(const int64_t *shape)
{
    return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

/* Whether an axis goes on where the last one ends, in an array with these strides. */
static bool is_joined(const struct math_call *call, const u64 *strides, uint64_t stride)
{
    return stride == strides[call->rank - 1] * call->length[call->rank - 1];
}

/* Adds the next axis to the outside. */
static void append(struct math_call *call, uint64_t length, uint64_t a_stride, uint64_t b_stride)
{
    call->count *= length;
    if (length == 1)
        return;
    if (call->rank > 0 && is_joined(call, call->a_stride, a_stride) && is_joined(call, call->b_stride, b_stride)) {
        call->length[call->rank - 1] *= length;
        return;
    }
    call->length[call->rank] = length;
    call->a_stride[call->rank] = a_stride;
    call->b_stride[call->rank] = b_stride;
    call->rank++;
}

static struct math_call lay_out(const int64_t *shape, const int64_t *a_stride, const int64_t *b_stride)
{
    struct math_call call = {.count = 1, .length = {1, 1, 1, 1}};
    for (uint32_t i = AXES; i-- > 0;)
        append(&call, (uint64_t)shape[i], (uint64_t)a_stride[i], (uint64_t)b_stride[i]);
    if (call.rank == 0)
        call.rank = 1;
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
};

static void add(struct plan *plan, const struct math_call *call)
{
    struct kernel_name stem = plan_kernel_of("math", ROWS[plan->builtin->function].kernel, NULL);
    struct kernel_name kernel = plan_kernel_of(stem.text, plan_type(plan->builtin->type), NULL);
    plan_add(plan, &kernel, plan_blocks(plan, call->count, THREADS), 0, call, sizeof(*call));
}

static void plan_unary(struct plan *plan, const struct vgc_unary_params *p)
{
    struct math_call call = lay_out(p->shape, p->a_stride, p->a_stride);
    call.operation = ROWS[plan->builtin->function].operation;
    call.a = p->a;
    call.out = p->out;
    add(plan, &call);
}

static void plan_convert(struct plan *plan, const struct vgc_convert_params *p)
{
    struct math_call call = lay_out(p->shape, p->a_stride, p->a_stride);
    call.operation = (uint32_t)p->to;
    call.a = p->a;
    call.out = p->out;
    add(plan, &call);
}

static void plan_binary(struct plan *plan, const struct vgc_binary_params *p)
{
    struct math_call call = lay_out(p->shape, p->a_stride, p->b_stride);
    call.operation = ROWS[plan->builtin->function].operation;
    call.a = p->a;
    call.b = p->b;
    call.out = p->out;
    add(plan, &call);
}

void plan_math(struct plan *plan, const void *params)
{
    uint32_t function = plan->builtin->function;
    if (is_empty(params)) /* the shape comes first in all blocks */
        return;
    if (function == VGC_FN_CONVERT)
        plan_convert(plan, params);
    else if (function <= VGC_FN_LESS_EQUAL)
        plan_binary(plan, params);
    else
        plan_unary(plan, params);
}
