/* Plans of Fourier transforms: axis by axis. Short lines are transformed in shared memory, long ones in passes, and
 * those whose length has a factor other than 2, 3, 5 and 7 by Bluestein's algorithm. */
#include "calls.h"
#include "planners.h"

enum { MOST_PASSES = 24 };

static uint64_t complex_bytes(const struct plan *plan)
{
    return 2 * vgc_builtin_type_bytes(plan->builtin->type);
}

static uint64_t numbers_of(const struct fft_lines *lines)
{
    return lines->outer * lines->length * lines->inner;
}

static uint64_t take_lines(struct plan *plan, const struct fft_lines *lines)
{
    return plan_take(plan, numbers_of(lines) * complex_bytes(plan));
}

/* Adds a launch with a thread for each of `items`. */
static void add(struct plan *plan, const char *stem, uint64_t items, const void *call, uint32_t bytes)
{
    struct kernel_name kernel = plan_kernel_of(stem, plan_type(plan->builtin->type), NULL);
    plan_add(plan, &kernel, plan_blocks(plan, items, THREADS), 0, call, bytes);
}

/* Factors of a length, `most_of_two` at most of its powers of two; their number, 0 if there are others. */
static uint32_t factorise(uint64_t length, uint32_t most_of_two, u32 *factors)
{
    static const u32 FACTORS[] = {16, 8, 4, 2, 3, 5, 7};
    uint32_t count = 0;
    for (uint32_t i = 0; i < sizeof(FACTORS) / sizeof(FACTORS[0]); i++)
        while (length % FACTORS[i] == 0 && FACTORS[i] <= most_of_two) {
            factors[count++] = FACTORS[i];
            length /= FACTORS[i];
        }
    return length == 1 ? count : 0;
}

/* ---- one axis ---------------------------------------------------------------------------------------------------- */

static void add_lines(struct plan *plan, const struct fft_lines *lines, u64 in, u64 out, bool inverse, double scale)
{
    struct fft_lines_call call = {.in = in, .out = out, .lines = *lines, .scale = scale, .inverse = inverse};
    struct kernel_name kernel = plan_kernel_of("fft_lines", plan_type(plan->builtin->type), NULL);
    call.num_factors = factorise(lines->length, 8, call.factors);
    call.per_block = (u32)(FFT_BYTES / complex_bytes(plan) / lines->length);
    plan_add(plan, &kernel, plan_blocks(plan, lines->outer * lines->inner, call.per_block), 0, &call, sizeof(call));
}

/* Passes write to the result and to memory of the workspace in turn, and the last one to the result. */
static void add_passes(struct plan *plan, const struct fft_lines *lines, u64 in, u64 out, bool inverse, double scale)
{
    u32 factors[MOST_PASSES + 1];
    struct fft_pass_call call = {.in = in, .lines = *lines, .done = 1, .scale = 1, .inverse = inverse};
    uint64_t taken = plan->bytes, between = take_lines(plan, lines);
    uint32_t count = factorise(lines->length, 16, factors);
    if (in == out && count % 2 == 1)
        factors[count++] = 1; /* a copy: no pass writes where it reads */
    for (uint32_t i = 0; i < count; i++) {
        static const char *const KERNELS[] = {
            [1] = "fft_pass_1", [2] = "fft_pass_2", [3] = "fft_pass_3", [4] = "fft_pass_4",
            [5] = "fft_pass_5", [7] = "fft_pass_7", [8] = "fft_pass_8", [16] = "fft_pass_16"};
        call.out = (count - 1 - i) % 2 == 0 ? out : between;
        call.scale = i + 1 == count ? scale : 1;
        add(plan, KERNELS[factors[i]], numbers_of(lines) / factors[i], &call, sizeof(call));
        call.in = call.out;
        call.done *= factors[i];
    }
    plan_give_back(plan, taken);
}

static void add_smooth(struct plan *plan, const struct fft_lines *lines, u64 in, u64 out, bool inverse, double scale)
{
    if (lines->length * complex_bytes(plan) <= FFT_BYTES)
        add_lines(plan, lines, in, out, inverse, scale);
    else
        add_passes(plan, lines, in, out, inverse, scale);
}

static void add_chirp(struct plan *plan, const struct fft_lines *lines, u64 in, u64 out, bool inverse, double scale)
{
    struct fft_lines longer = *lines, one = {1, 1, 1};
    uint64_t taken = plan->bytes;
    longer.length = 1;
    while (longer.length < 2 * lines->length - 1)
        longer.length *= 2;
    one.length = longer.length;
    u64 numbers = take_lines(plan, &longer), chirp = take_lines(plan, &one);
    struct fft_chirp_call call = {.in = in, .out = numbers, .lines = *lines, .padded = longer.length};
    call.inverse = inverse;
    add(plan, "fft_chirp_begin", numbers_of(&longer), &call, sizeof(call));
    add_smooth(plan, &longer, numbers, numbers, false, 1);
    call.out = chirp;
    add(plan, "fft_chirp", longer.length, &call, sizeof(call));
    add_smooth(plan, &one, chirp, chirp, false, 1);
    call.in = chirp;
    call.out = numbers;
    add(plan, "fft_multiply", numbers_of(&longer), &call, sizeof(call));
    add_smooth(plan, &longer, numbers, numbers, true, 1 / (double)longer.length);
    call.in = numbers;
    call.out = out;
    call.scale = scale;
    add(plan, "fft_chirp_end", numbers_of(lines), &call, sizeof(call));
    plan_give_back(plan, taken);
}

/* Transforms all lines; `out` may be `in`. Inverse transforms are divided by the length. */
static void add_axis(struct plan *plan, const struct fft_lines *lines, u64 in, u64 out, bool inverse)
{
    u32 factors[MOST_PASSES];
    double scale = inverse ? 1 / (double)lines->length : 1;
    if (lines->length == 1 && in == out)
        return;
    if (lines->length == 1 || factorise(lines->length, 16, factors) > 0)
        add_smooth(plan, lines, in, out, inverse, scale);
    else
        add_chirp(plan, lines, in, out, inverse, scale);
}

/* ---- all axes ---------------------------------------------------------------------------------------------------- */

struct shape {
    uint64_t batch, lengths[3];
    uint32_t rank;
};

static struct fft_lines lines_of(const struct shape *shape, uint32_t axis)
{
    struct fft_lines lines = {shape->batch, shape->lengths[axis], 1};
    for (uint32_t i = 0; i < axis; i++)
        lines.outer *= shape->lengths[i];
    for (uint32_t i = axis + 1; i < shape->rank; i++)
        lines.inner *= shape->lengths[i];
    return lines;
}

/* Transforms the first `axes` axes, from `in` to `out`. */
static void add_axes(struct plan *plan, const struct shape *shape, uint32_t axes, u64 in, u64 out, bool inverse)
{
    for (uint32_t i = 0; i < axes; i++) {
        struct fft_lines lines = lines_of(shape, i);
        add_axis(plan, &lines, i == 0 ? in : out, out, inverse);
    }
}

static void add_rows(struct plan *plan, const char *stem, const struct fft_lines *lines, u64 in, u64 out)
{
    struct fft_rows_call call = {.in = in, .out = out, .outer = lines->outer, .length = lines->length};
    add(plan, stem, numbers_of(lines), &call, sizeof(call));
}

static void plan_real(struct plan *plan, const struct vgc_fft_params *p, struct shape shape)
{
    uint32_t last = shape.rank - 1;
    uint64_t taken = plan->bytes;
    struct fft_lines lines = lines_of(&shape, last);
    u64 whole = take_lines(plan, &lines);
    add_rows(plan, "fft_widen", &lines, p->in, whole);
    add_axis(plan, &lines, whole, whole, false);
    add_rows(plan, "fft_halve", &lines, whole, p->out);
    plan_give_back(plan, taken);
    shape.lengths[last] = shape.lengths[last] / 2 + 1;
    add_axes(plan, &shape, last, p->out, p->out, false);
}

static void plan_half(struct plan *plan, const struct vgc_fft_params *p, struct shape shape)
{
    uint32_t last = shape.rank - 1;
    struct fft_lines lines = lines_of(&shape, last), halves = lines;
    struct shape half = shape;
    half.lengths[last] = halves.length = lines.length / 2 + 1;
    u64 half_lines = last > 0 ? take_lines(plan, &halves) : p->in, whole = take_lines(plan, &lines);
    add_axes(plan, &half, last, p->in, half_lines, true);
    add_rows(plan, "fft_mirror", &lines, half_lines, whole);
    add_axis(plan, &lines, whole, whole, true);
    add_rows(plan, "fft_real", &lines, whole, p->out);
}

void plan_fft(struct plan *plan, const void *params)
{
    const struct vgc_fft_params *p = params;
    struct shape shape = {(uint64_t)p->batch, {(uint64_t)p->n0, (uint64_t)p->n1, (uint64_t)p->n2}, (uint32_t)p->rank};
    if (shape.batch == 0)
        return;
    switch (plan->builtin->function) {
    case VGC_FN_FFT_C2C:
        add_axes(plan, &shape, shape.rank, p->in, p->out, p->inverse != 0);
        break;
    case VGC_FN_FFT_R2C:
        plan_real(plan, p, shape);
        break;
    default:
        plan_half(plan, p, shape);
        break;
    }
}
