/* A cuFFT without a GPU: Fourier transforms in memory of the fake driver, in the order of streams.
 *
 * Its rules are those of NVIDIA's documentation [cuFFT: cufftSetAutoAllocation, cufftMakePlanMany64, cufftSetWorkArea,
 * Fourier transform types]. It is as inconvenient as it is allowed to be: it writes to all of the work area, and to the
 * input of transforms to real numbers, which must be Hermitian. */
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../../vhost_backend/engines/cuda/cuda_libraries_abi.h"
#include "../cuda/library.h"

#define API __attribute__((visibility("default")))

enum { INVALID_PLAN = 1, INVALID_VALUE = 4, INVALID_SIZE = 8, UNALIGNED_DATA = 9 };
enum { MOST_PLANS = 64, GARBAGE = 0xa5 };

/* Without lengths, elements lie one behind the other. */
struct layout {
    bool is_given;
    long long lengths[3], stride, distance;
};

struct plan {
    bool lives, allocates, is_made, has_stream;
    CUcontext context;
    int rank;
    long long lengths[3], batch;
    struct layout in, out;
    unsigned int type;
    CUstream stream;
    void *work;
};

static struct plan plans[MOST_PLANS];

static CUcontext current(void)
{
    CUcontext context = NULL;
    return cuCtxGetCurrent(&context) ? NULL : context;
}

static fft_result begin(const char *name, fft_plan handle)
{
    int injected = fake_cuda_library_call(name);
    if (injected)
        return (fft_result)injected;
    if (handle < 0 || handle >= MOST_PLANS || !plans[handle].lives) {
        fake_cuda_library_misuse("a plan of cuFFT that does not live");
        return INVALID_PLAN;
    }
    if (plans[handle].context != current())
        fake_cuda_library_misuse("a plan of cuFFT in another context than that of its making");
    return FFT_SUCCESS;
}

API fft_result cufftCreate(fft_plan *handle)
{
    int injected = fake_cuda_library_call(__func__);
    if (injected)
        return (fft_result)injected;
    for (*handle = 0; *handle < MOST_PLANS && plans[*handle].lives; ++*handle)
        ;
    if (*handle == MOST_PLANS)
        abort();
    plans[*handle] = (struct plan){.lives = true, .allocates = true, .context = current()};
    fake_cuda_library_count(1);
    return FFT_SUCCESS;
}

API fft_result cufftDestroy(fft_plan handle)
{
    fft_result result = begin(__func__, handle);
    if (!result) {
        plans[handle].lives = false;
        fake_cuda_library_count(-1);
    }
    return result;
}

API fft_result cufftSetAutoAllocation(fft_plan handle, int allocates)
{
    fft_result result = begin(__func__, handle);
    if (!result)
        plans[handle].allocates = allocates != 0;
    return result;
}

static bool is_double(unsigned int type)
{
    return type == FFT_Z2Z || type == FFT_D2Z || type == FFT_Z2D;
}

static bool is_to_real(unsigned int type)
{
    return type == FFT_C2R || type == FFT_Z2D;
}

static bool is_from_real(unsigned int type)
{
    return type == FFT_R2C || type == FFT_D2Z;
}

static size_t complex_bytes(unsigned int type)
{
    return is_double(type) ? 16 : 8;
}

/* Length of the last axis of complex numbers that stand for real ones. */
static size_t half_of(const struct plan *plan)
{
    return (size_t)plan->lengths[plan->rank - 1] / 2 + 1;
}

static size_t rows_of(const struct plan *plan)
{
    size_t rows = (size_t)plan->batch;
    for (int i = 0; i + 1 < plan->rank; i++)
        rows *= (size_t)plan->lengths[i];
    return rows;
}

static size_t elements_of(const struct plan *plan)
{
    return rows_of(plan) * (size_t)plan->lengths[plan->rank - 1];
}

static size_t work_bytes(const struct plan *plan)
{
    return elements_of(plan) * complex_bytes(plan->type) + 256;
}

static struct layout layout_of(int rank, const long long *lengths, long long stride, long long distance)
{
    struct layout layout = {.is_given = lengths != NULL, .stride = stride, .distance = distance};
    for (int i = 0; lengths && i < rank; i++)
        layout.lengths[i] = lengths[i];
    return layout;
}

API fft_result cufftMakePlanMany64(fft_plan handle, int rank, long long *lengths, long long *in_lengths,
                                   long long in_stride, long long in_distance, long long *out_lengths,
                                   long long out_stride, long long out_distance, unsigned int type, long long batch,
                                   size_t *size)
{
    fft_result result = begin(__func__, handle);
    if (result)
        return result;
    if (rank < 1 || rank > 3 || batch < 1 || !in_lengths != !out_lengths)
        return INVALID_VALUE;
    if (in_lengths && (in_stride < 1 || out_stride < 1))
        return INVALID_VALUE;
    struct plan *plan = &plans[handle];
    if (plan->allocates)
        fake_cuda_library_misuse("a plan of cuFFT that allocates its work area itself");
    plan->is_made = true;
    plan->rank = rank;
    plan->batch = batch;
    plan->type = type;
    plan->in = layout_of(rank, in_lengths, in_stride, in_distance);
    plan->out = layout_of(rank, out_lengths, out_stride, out_distance);
    for (int i = 0; i < rank; i++) {
        if (lengths[i] < 1)
            return INVALID_SIZE;
        plan->lengths[i] = lengths[i];
    }
    *size = work_bytes(plan);
    return FFT_SUCCESS;
}

API fft_result cufftSetStream(fft_plan handle, CUstream stream)
{
    fft_result result = begin(__func__, handle);
    if (!result) {
        plans[handle].stream = stream;
        plans[handle].has_stream = true;
    }
    return result;
}

API fft_result cufftSetWorkArea(fft_plan handle, void *work)
{
    fft_result result = begin(__func__, handle);
    if (!result)
        plans[handle].work = work;
    return result;
}

/* ---- transforms
 * ------------------------------------------------------------------------------------------------------ */

struct transform {
    struct plan plan;
    int direction;
};

static double complex load(const char *from, size_t at, bool doubles)
{
    if (doubles)
        return ((const double complex *)(const void *)from)[at];
    return ((const float complex *)(const void *)from)[at];
}

static void store(char *to, size_t at, bool doubles, double complex value)
{
    if (doubles)
        ((double complex *)(void *)to)[at] = value;
    else
        ((float complex *)(void *)to)[at] = (float complex)value;
}

/* Transforms a line of numbers that are `step` apart. */
static void transform_line(double complex *numbers, size_t length, size_t step, int direction)
{
    double complex *before = calloc(length, sizeof *before);
    if (!before)
        abort();
    for (size_t i = 0; i < length; i++)
        before[i] = numbers[i * step];
    for (size_t i = 0; i < length; i++) {
        double complex sum = 0;
        for (size_t j = 0; j < length; j++)
            sum += before[j] * cexp(direction * 2 * M_PI * I * (double)(i * j % length) / (double)length);
        numbers[i * step] = sum;
    }
    free(before);
}

static void transform_axes(const struct plan *plan, double complex *numbers, int direction)
{
    size_t inner = 1, elements = elements_of(plan);
    for (int axis = plan->rank - 1; axis >= 0; axis--) {
        size_t length = (size_t)plan->lengths[axis];
        for (size_t outer = 0; outer < elements; outer += length * inner)
            for (size_t i = 0; i < inner; i++)
                transform_line(numbers + outer + i, length, inner, direction);
        inner *= length;
    }
}

/* Place of the conjugated number in the whole array. */
static size_t mirrored(const struct plan *plan, size_t at)
{
    size_t place = 0, factor = 1;
    for (int axis = plan->rank - 1; axis >= 0; axis--) {
        size_t length = (size_t)plan->lengths[axis], number = at % length;
        at /= length;
        place += (number ? length - number : 0) * factor;
        factor *= length;
    }
    return at * factor + place;
}

/* Place of an element in memory. Its number counts those of arrays whose last axis is `last` long. */
static size_t place(const struct plan *plan, const struct layout *layout, size_t last, size_t number)
{
    size_t at = 0, step = (size_t)layout->stride, rest = number;
    if (!layout->is_given)
        return number;
    for (int axis = plan->rank - 1; axis >= 0; axis--) {
        size_t length = axis == plan->rank - 1 ? last : (size_t)plan->lengths[axis];
        at += rest % length * step;
        rest /= length;
        step *= (size_t)layout->lengths[axis];
    }
    return at + rest * (size_t)layout->distance;
}

static size_t last_of(const struct plan *plan)
{
    return (size_t)plan->lengths[plan->rank - 1];
}

/* Elements from the first to behind the last one. */
static size_t extent(const struct plan *plan, const struct layout *layout, size_t last)
{
    return place(plan, layout, last, rows_of(plan) * last - 1) + 1;
}

static double complex *load_half(const struct plan *plan, const char *in)
{
    size_t last = (size_t)plan->lengths[plan->rank - 1], elements = elements_of(plan);
    double complex *numbers = calloc(elements, sizeof *numbers);
    if (!numbers)
        abort();
    for (size_t i = 0; i < elements; i++)
        if (i % last < half_of(plan))
            numbers[i] = load(in, place(plan, &plan->in, half_of(plan), i / last * half_of(plan) + i % last),
                              is_double(plan->type));
    for (size_t i = 0; i < elements; i++)
        if (i % last >= half_of(plan))
            numbers[i] = conj(numbers[mirrored(plan, i)]);
    for (size_t i = 0; i < elements; i++)
        if (cabs(numbers[i] - conj(numbers[mirrored(plan, i)])) > 1e-5 * cabs(numbers[i])) {
            fake_cuda_library_misuse("the input of a transform to real numbers is not Hermitian");
            break;
        }
    return numbers;
}

static double complex *load_whole(const struct plan *plan, const char *in)
{
    double complex *numbers = calloc(elements_of(plan), sizeof *numbers);
    if (!numbers)
        abort();
    for (size_t i = 0; i < elements_of(plan); i++) {
        size_t at = place(plan, &plan->in, last_of(plan), i);
        if (plan->type == FFT_R2C)
            numbers[i] = (double)((const float *)(const void *)in)[at];
        else if (plan->type == FFT_D2Z)
            numbers[i] = ((const double *)(const void *)in)[at];
        else
            numbers[i] = load(in, at, is_double(plan->type));
    }
    return numbers;
}

static void store_all(const struct plan *plan, char *out, const double complex *numbers)
{
    const size_t last = last_of(plan), half = half_of(plan);
    for (size_t i = 0; i < elements_of(plan); i++) {
        size_t at = place(plan, &plan->out, last, i);
        if (plan->type == FFT_C2R)
            ((float *)(void *)out)[at] = (float)creal(numbers[i]);
        else if (plan->type == FFT_Z2D)
            ((double *)(void *)out)[at] = creal(numbers[i]);
        else if (!is_from_real(plan->type))
            store(out, at, is_double(plan->type), numbers[i]);
        else if (i % last < half)
            store(out, place(plan, &plan->out, half, i / last * half + i % last), is_double(plan->type), numbers[i]);
    }
}

/* Bytes of an array up to its last element. */
static size_t bytes_of(const struct plan *plan, const struct layout *layout, bool is_real, bool is_half)
{
    return extent(plan, layout, is_half ? half_of(plan) : last_of(plan)) * complex_bytes(plan->type) /
           (is_real ? 2 : 1);
}

static void spoil_input(const struct plan *plan, char *in)
{
    size_t each = complex_bytes(plan->type);
    for (size_t i = 0; i < rows_of(plan) * half_of(plan); i++)
        memset(in + place(plan, &plan->in, half_of(plan), i) * each, GARBAGE, each);
}

static void compute(void *data, char *const *bytes)
{
    const struct transform *work = data;
    const struct plan *plan = &work->plan;
    double complex *numbers = is_to_real(plan->type) ? load_half(plan, bytes[0]) : load_whole(plan, bytes[0]);
    memset(bytes[2], GARBAGE, work_bytes(plan));
    if (is_to_real(plan->type))
        spoil_input(plan, bytes[0]);
    transform_axes(plan, numbers, work->direction);
    store_all(plan, bytes[1], numbers);
    free(numbers);
}

static fft_result execute(const char *name, fft_plan handle, unsigned int type, void *in, void *out, int direction)
{
    fft_result result = begin(name, handle);
    if (result)
        return result;
    const struct plan *plan = &plans[handle];
    if (!plan->is_made || plan->type != type)
        return INVALID_PLAN;
    if ((uintptr_t)in % complex_bytes(type) || (uintptr_t)out % complex_bytes(type))
        return UNALIGNED_DATA;
    if (!plan->work || !plan->has_stream)
        fake_cuda_library_misuse("a transform without a work area, or without a stream");
    struct fake_library_range ranges[] = {
        {(CUdeviceptr)(uintptr_t)in, bytes_of(plan, &plan->in, is_from_real(type), is_to_real(type))},
        {(CUdeviceptr)(uintptr_t)out, bytes_of(plan, &plan->out, is_to_real(type), is_from_real(type))},
        {(CUdeviceptr)(uintptr_t)plan->work, work_bytes(plan)},
    };
    struct transform work = {*plan, direction};
    return fake_cuda_library_submit(plan->stream, compute, &work, sizeof work, ranges, 3) ? FFT_EXEC_FAILED
                                                                                          : FFT_SUCCESS;
}

API fft_result cufftExecC2C(fft_plan plan, struct float2 *in, struct float2 *out, int direction)
{
    return execute(__func__, plan, FFT_C2C, in, out, direction);
}

API fft_result cufftExecZ2Z(fft_plan plan, struct double2 *in, struct double2 *out, int direction)
{
    return execute(__func__, plan, FFT_Z2Z, in, out, direction);
}

API fft_result cufftExecR2C(fft_plan plan, float *in, struct float2 *out)
{
    return execute(__func__, plan, FFT_R2C, in, out, FFT_FORWARD);
}

API fft_result cufftExecD2Z(fft_plan plan, double *in, struct double2 *out)
{
    return execute(__func__, plan, FFT_D2Z, in, out, FFT_FORWARD);
}

API fft_result cufftExecC2R(fft_plan plan, struct float2 *in, float *out)
{
    return execute(__func__, plan, FFT_C2R, in, out, FFT_INVERSE);
}

API fft_result cufftExecZ2D(fft_plan plan, struct double2 *in, double *out)
{
    return execute(__func__, plan, FFT_Z2D, in, out, FFT_INVERSE);
}
