/* A cuDNN without a GPU: convolutions and their gradients in memory of the fake driver, in the order of streams.
 *
 * Its rules are those of NVIDIA's documentation [cuDNN: cudnn_cnn library]. An algorithm needs a workspace, which the
 * call has to bring; what the engine must not do, such as to use descriptors that do not live, is misuse. */
#include <stdlib.h>
#include <string.h>

#include "../../../vhost_backend/engines/cuda/cuda_dnn_abi.h"
#include "../cuda/library.h"

#define API __attribute__((visibility("default")))

enum { BAD_PARAM = 2000, MOST_AXES = 5, SPACE = 3, ALIGNMENT = 16, WORKSPACE = 4096, GARBAGE = 0xa5, ALGORITHM = 7 };
enum { SLOW_ALGORITHM = 3, TENSOR_OP_MATH = 1 };

struct cudnnContext {
    CUstream stream;
};

struct array {
    unsigned int type;
    int axes, size[MOST_AXES];
    int64_t stride[MOST_AXES];
};
struct cudnnTensorStruct {
    struct array array;
};
struct cudnnFilterStruct {
    struct array array;
};
struct cudnnConvolutionStruct {
    int space, pad[SPACE], stride[SPACE], dilation[SPACE], groups;
    unsigned int compute, math;
};

static dnn_result begin(const char *name)
{
    return (dnn_result)fake_cuda_library_call(name);
}

#define LIFE(Create, Destroy, type)                                                                                    \
    API dnn_result Create(type *made)                                                                                  \
    {                                                                                                                  \
        dnn_result result = begin(__func__);                                                                           \
        if (result)                                                                                                    \
            return result;                                                                                             \
        *made = calloc(1, sizeof **made);                                                                              \
        if (!*made)                                                                                                    \
            abort();                                                                                                   \
        fake_cuda_library_count(1);                                                                                    \
        return DNN_SUCCESS;                                                                                            \
    }                                                                                                                  \
    API dnn_result Destroy(type one)                                                                                   \
    {                                                                                                                  \
        free(one);                                                                                                     \
        fake_cuda_library_count(-1);                                                                                   \
        return DNN_SUCCESS;                                                                                            \
    }
LIFE(cudnnCreate, cudnnDestroy, dnn_handle)
LIFE(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor, dnn_tensor)
LIFE(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor, dnn_filter)
LIFE(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor, dnn_convolution)

API dnn_result cudnnSetStream(dnn_handle handle, CUstream stream)
{
    handle->stream = stream;
    return begin(__func__);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

static bool is_array(unsigned int type, int axes, const int *size)
{
    bool good = (type <= DNN_HALF || type == DNN_BFLOAT16) && axes >= 4 && axes <= MOST_AXES;
    for (int i = 0; good && i < axes; i++)
        good = size[i] > 0;
    return good;
}

API dnn_result cudnnSetTensorNdDescriptor(dnn_tensor tensor, unsigned int type, int axes, const int *size,
                                          const int *stride)
{
    if (!is_array(type, axes, size))
        return BAD_PARAM;
    tensor->array = (struct array){.type = type, .axes = axes};
    for (int i = 0; i < axes; i++) {
        tensor->array.size[i] = size[i];
        tensor->array.stride[i] = stride[i];
    }
    return begin(__func__);
}

API dnn_result cudnnSetFilterNdDescriptor(dnn_filter filter, unsigned int type, unsigned int format, int axes,
                                          const int *size)
{
    if (!is_array(type, axes, size) || format > DNN_TENSOR_NHWC)
        return BAD_PARAM;
    filter->array = (struct array){.type = type, .axes = axes};
    int64_t stride = format == DNN_TENSOR_NHWC ? size[1] : 1;
    for (int i = axes - 1; i >= 0; i--) {
        filter->array.size[i] = size[i];
        if (format == DNN_TENSOR_NHWC && i == 1)
            continue;
        filter->array.stride[i] = stride;
        stride *= size[i];
    }
    if (format == DNN_TENSOR_NHWC)
        filter->array.stride[1] = 1;
    return begin(__func__);
}

API dnn_result cudnnSetConvolutionNdDescriptor(dnn_convolution convolution, int space, const int *pad,
                                               const int *stride, const int *dilation, unsigned int mode,
                                               unsigned int compute)
{
    if (space < 2 || space > SPACE || mode != DNN_CROSS_CORRELATION)
        return BAD_PARAM;
    convolution->space = space;
    convolution->compute = compute;
    convolution->groups = 1;
    for (int i = 0; i < space; i++) {
        convolution->pad[i] = pad[i];
        convolution->stride[i] = stride[i];
        convolution->dilation[i] = dilation[i];
    }
    return begin(__func__);
}

API dnn_result cudnnSetConvolutionGroupCount(dnn_convolution convolution, int groups)
{
    convolution->groups = groups;
    return begin(__func__);
}

API dnn_result cudnnSetConvolutionMathType(dnn_convolution convolution, unsigned int math)
{
    convolution->math = math;
    return begin(__func__);
}

/* ---- algorithms: the first rounds inputs, the second is not deterministic, the third needs a workspace
 * --------------- */

static dnn_result list(const char *name, const struct cudnnConvolutionStruct *convolution, int most, int *count,
                       struct dnn_found *found)
{
    const bool is_exact = convolution->math == DNN_FMA_MATH;
    const struct dnn_found all[] = {
        {1, DNN_SUCCESS, 0, 0, DNN_DETERMINISTIC, DNN_TENSOR_OP_MATH_ALLOW_CONVERSION, {0}},
        {2, DNN_SUCCESS, 0, 0, 0, is_exact ? DNN_FMA_MATH : TENSOR_OP_MATH, {0}},
        {ALGORITHM, DNN_SUCCESS, 0, WORKSPACE, DNN_DETERMINISTIC, is_exact ? DNN_FMA_MATH : DNN_DEFAULT_MATH, {0}},
        {SLOW_ALGORITHM, DNN_SUCCESS, 0, 0, DNN_DETERMINISTIC, DNN_FMA_MATH, {0}},
    };
    dnn_result result = begin(name);
    for (*count = 0; *count < most && *count < (int)(sizeof all / sizeof *all); ++*count)
        found[*count] = all[*count];
    return result;
}

API dnn_result cudnnGetConvolutionForwardAlgorithm_v7(dnn_handle handle, dnn_tensor x, dnn_filter w,
                                                      dnn_convolution convolution, dnn_tensor y, int most, int *count,
                                                      struct dnn_found *found)
{
    (void)handle, (void)x, (void)w, (void)y;
    return list(__func__, convolution, most, count, found);
}

API dnn_result cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn_handle handle, dnn_filter w, dnn_tensor y,
                                                           dnn_convolution convolution, dnn_tensor x, int most,
                                                           int *count, struct dnn_found *found)
{
    (void)handle, (void)x, (void)w, (void)y;
    return list(__func__, convolution, most, count, found);
}

API dnn_result cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn_handle handle, dnn_tensor x, dnn_tensor y,
                                                             dnn_convolution convolution, dnn_filter w, int most,
                                                             int *count, struct dnn_found *found)
{
    (void)handle, (void)x, (void)w, (void)y;
    return list(__func__, convolution, most, count, found);
}

/* ---- convolutions: sums over all places of all filters --------------------------------------------------------------
 */

enum target { TO_Y, TO_X, TO_W };

struct work {
    struct array arrays[3]; /* x, w, y */
    struct cudnnConvolutionStruct convolution;
    double alpha, beta;
    enum target target;
    bool has_workspace;
};

static size_t bytes_of(unsigned int type)
{
    return type == DNN_DOUBLE ? 8 : type == DNN_FLOAT ? 4 : 2;
}

static double load(const char *from, int64_t at, unsigned int type)
{
    if (type == DNN_DOUBLE)
        return ((const double *)(const void *)from)[at];
    if (type == DNN_FLOAT)
        return (double)((const float *)(const void *)from)[at];
    if (type == DNN_HALF)
        return (double)((const _Float16 *)(const void *)from)[at];
    uint32_t bits = (uint32_t)((const uint16_t *)(const void *)from)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void store(char *to, int64_t at, unsigned int type, double number)
{
    if (type == DNN_DOUBLE)
        ((double *)(void *)to)[at] = number;
    else if (type == DNN_FLOAT)
        ((float *)(void *)to)[at] = (float)number;
    else if (type == DNN_HALF)
        ((_Float16 *)(void *)to)[at] = (_Float16)(float)number;
    else {
        float value = (float)number;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)(void *)to)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static int64_t elements(const struct array *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->axes; i++)
        count *= array->size[i];
    return count;
}

/* Indices of an element by its number, and its place in memory. */
static int64_t place(const struct array *array, int64_t number, int index[MOST_AXES])
{
    int64_t at = 0;
    for (int i = array->axes - 1; i >= 0; i--) {
        index[i] = (int)(number % array->size[i]);
        number /= array->size[i];
        at += index[i] * array->stride[i];
    }
    return at;
}

/* Where the filter at a place of y meets x; false: outside. */
static bool meet(const struct work *work, const int y[MOST_AXES], const int w[MOST_AXES], int64_t *at)
{
    const struct cudnnConvolutionStruct *c = &work->convolution;
    const struct array *x = &work->arrays[0];
    int filters = work->arrays[1].size[0] / c->groups, group = y[1] / filters;
    int channel = group * work->arrays[1].size[1] + w[1];
    *at = y[0] * x->stride[0] + channel * x->stride[1];
    for (int i = 0; i < c->space; i++) {
        int where = y[i + 2] * c->stride[i] - c->pad[i] + w[i + 2] * c->dilation[i];
        if (where < 0 || where >= x->size[i + 2])
            return false;
        *at += where * x->stride[i + 2];
    }
    return true;
}

static void compute(void *data, char *const *bytes)
{
    const struct work *work = data;
    const struct array *to = &work->arrays[work->target == TO_Y ? 2 : work->target == TO_X ? 0 : 1];
    const struct array *x = &work->arrays[0], *w = &work->arrays[1], *y = &work->arrays[2];
    const int which = (int)(to - work->arrays);
    int64_t reach = 1;
    for (int i = 0; i < to->axes; i++)
        reach += (to->size[i] - 1) * to->stride[i];
    double *sums = calloc((size_t)reach, sizeof *sums);
    if (!sums)
        abort();
    if (work->has_workspace)
        memset(bytes[3], GARBAGE, WORKSPACE);
    int at_y[MOST_AXES], at_w[MOST_AXES], ignored[MOST_AXES];
    for (int64_t i = 0; i < elements(y); i++) {
        int64_t y_place = place(y, i, at_y);
        for (int64_t j = 0; j < elements(w) / w->size[0]; j++) {
            int64_t w_place = place(w, at_y[1] * (elements(w) / w->size[0]) + j, at_w), x_place;
            if (!meet(work, at_y, at_w, &x_place))
                continue;
            double left = load(bytes[0], x_place, x->type), middle = load(bytes[1], w_place, w->type);
            double right = load(bytes[2], y_place, y->type);
            if (work->target == TO_Y)
                sums[y_place] += left * middle;
            else if (work->target == TO_X)
                sums[x_place] += middle * right;
            else
                sums[w_place] += left * right;
        }
    }
    for (int64_t i = 0; i < elements(to); i++) {
        int64_t at = place(to, i, ignored);
        double before = work->beta == 0 ? 0 : work->beta * load(bytes[which], at, to->type);
        store(bytes[which], at, to->type, work->alpha * sums[at] + before);
    }
    free(sums);
}

static struct fake_library_range range_of(const struct array *array, const void *address)
{
    int64_t reach = 1;
    for (int i = 0; i < array->axes; i++)
        reach += (array->size[i] - 1) * array->stride[i];
    return (struct fake_library_range){(CUdeviceptr)(uintptr_t)address, (size_t)reach * bytes_of(array->type)};
}

static dnn_result run(const char *name, dnn_handle handle, struct work *work, const void *const addresses[3],
                      const void *alpha, const void *beta, unsigned int algorithm, void *space, size_t bytes)
{
    dnn_result result = begin(name);
    if (result)
        return result;
    work->has_workspace = algorithm == ALGORITHM;
    if (algorithm != ALGORITHM && algorithm != SLOW_ALGORITHM && algorithm != 2)
        return DNN_NOT_SUPPORTED;
    if (work->has_workspace && (bytes < WORKSPACE || !space || (uintptr_t)space % ALIGNMENT))
        return BAD_PARAM;
    bool is_double = work->arrays[0].type == DNN_DOUBLE;
    work->alpha = is_double ? *(const double *)alpha : (double)*(const float *)alpha;
    work->beta = is_double ? *(const double *)beta : (double)*(const float *)beta;
    struct fake_library_range ranges[4];
    for (int i = 0; i < 3; i++)
        ranges[i] = range_of(&work->arrays[i], addresses[i]);
    ranges[3] = (struct fake_library_range){(CUdeviceptr)(uintptr_t)space, WORKSPACE};
    size_t count = work->has_workspace ? 4 : 3;
    return fake_cuda_library_submit(handle->stream, compute, work, sizeof *work, ranges, count) ? DNN_EXECUTION_FAILED
                                                                                                : DNN_SUCCESS;
}

API dnn_result cudnnConvolutionForward(dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x,
                                       dnn_filter of_w, const void *w, dnn_convolution convolution,
                                       unsigned int algorithm, void *space, size_t bytes, const void *beta,
                                       dnn_tensor of_y, void *y)
{
    struct work work = {.arrays = {of_x->array, of_w->array, of_y->array}, .convolution = *convolution, .target = TO_Y};
    return run(__func__, handle, &work, (const void *[]){x, w, y}, alpha, beta, algorithm, space, bytes);
}

API dnn_result cudnnConvolutionBackwardData(dnn_handle handle, const void *alpha, dnn_filter of_w, const void *w,
                                            dnn_tensor of_y, const void *y, dnn_convolution convolution,
                                            unsigned int algorithm, void *space, size_t bytes, const void *beta,
                                            dnn_tensor of_x, void *x)
{
    struct work work = {.arrays = {of_x->array, of_w->array, of_y->array}, .convolution = *convolution, .target = TO_X};
    return run(__func__, handle, &work, (const void *[]){x, w, y}, alpha, beta, algorithm, space, bytes);
}

API dnn_result cudnnConvolutionBackwardFilter(dnn_handle handle, const void *alpha, dnn_tensor of_x, const void *x,
                                              dnn_tensor of_y, const void *y, dnn_convolution convolution,
                                              unsigned int algorithm, void *space, size_t bytes, const void *beta,
                                              dnn_filter of_w, void *w)
{
    struct work work = {.arrays = {of_x->array, of_w->array, of_y->array}, .convolution = *convolution, .target = TO_W};
    return run(__func__, handle, &work, (const void *[]){x, w, y}, alpha, beta, algorithm, space, bytes);
}

/* ---- normalization: each channel by the mean and the deviation of its elements -------------------------------------
 */

enum norm_range { NORM_X, NORM_Y, NORM_SCALE, NORM_BIAS, NORM_MEAN, NORM_VARIANCE, NORM_DX, NORM_DSCALE };
enum norm_kind { TRAINING, INFERENCE, BACKWARD };
enum { PER_ACTIVATION = 0 };

struct norm {
    struct array x, y, dx;
    enum norm_kind kind;
    unsigned int type; /* of numbers of channels */
    double factor, epsilon;
    bool has_running;
};

/* Mean and inverse deviation of a channel. */
static void measure(const struct norm *n, const char *x, int channel, double *mean, double *inverse, double *variance)
{
    int index[MOST_AXES];
    double sum = 0, squares = 0;
    int64_t count = elements(&n->x) / n->x.size[1];
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < elements(&n->x); i++) {
            int64_t at = place(&n->x, i, index);
            if (index[1] != channel)
                continue;
            double value = load(x, at, n->x.type);
            if (pass)
                squares += (value - *mean) * (value - *mean);
            else
                sum += value;
        }
        *mean = sum / (double)count;
    }
    *variance = squares / (double)count;
    *inverse = 1 / __builtin_sqrt(*variance + n->epsilon);
}

static void normalize(const struct norm *n, char *const *bytes, int channel)
{
    int index[MOST_AXES];
    double mean, inverse, variance, scale = load(bytes[NORM_SCALE], channel, n->type);
    double bias = load(bytes[NORM_BIAS], channel, n->type);
    measure(n, bytes[NORM_X], channel, &mean, &inverse, &variance);
    if (n->kind == INFERENCE) {
        mean = load(bytes[NORM_MEAN], channel, n->type);
        inverse = 1 / __builtin_sqrt(load(bytes[NORM_VARIANCE], channel, n->type) + n->epsilon);
    } else if (n->has_running) {
        double count = (double)(elements(&n->x) / n->x.size[1]);
        double before = load(bytes[NORM_MEAN], channel, n->type), was = load(bytes[NORM_VARIANCE], channel, n->type);
        store(bytes[NORM_MEAN], channel, n->type, (1 - n->factor) * before + n->factor * mean);
        store(bytes[NORM_VARIANCE], channel, n->type,
              (1 - n->factor) * was + n->factor * variance * count / (count > 1 ? count - 1 : 1));
    }
    for (int64_t i = 0; i < elements(&n->x); i++) {
        int64_t at = place(&n->x, i, index), to = place(&n->y, i, index);
        if (index[1] == channel)
            store(bytes[NORM_Y], to, n->y.type, (load(bytes[NORM_X], at, n->x.type) - mean) * inverse * scale + bias);
    }
}

static void differentiate(const struct norm *n, char *const *bytes, int channel)
{
    int index[MOST_AXES];
    double mean, inverse, variance, sum = 0, product = 0, scale = load(bytes[NORM_SCALE], channel, n->type);
    double count = (double)(elements(&n->x) / n->x.size[1]);
    measure(n, bytes[NORM_X], channel, &mean, &inverse, &variance);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < elements(&n->x); i++) {
            int64_t at = place(&n->x, i, index), from = place(&n->y, i, index), to = place(&n->dx, i, index);
            if (index[1] != channel)
                continue;
            double part = (load(bytes[NORM_X], at, n->x.type) - mean) * inverse,
                   dy = load(bytes[NORM_Y], from, n->y.type);
            if (pass)
                store(bytes[NORM_DX], to, n->dx.type, scale * inverse * (dy - sum / count - part * product / count));
            else {
                sum += dy;
                product += dy * part;
            }
        }
    store(bytes[NORM_BIAS], channel, n->type, sum);
    store(bytes[NORM_DSCALE], channel, n->type, product);
}

static void compute_norm(void *data, char *const *bytes)
{
    const struct norm *n = data;
    for (int channel = 0; channel < n->x.size[1]; channel++)
        if (n->kind == BACKWARD)
            differentiate(n, bytes, channel);
        else
            normalize(n, bytes, channel);
}

static struct fake_library_range numbers_of(const struct norm *n, const void *address)
{
    return (struct fake_library_range){(CUdeviceptr)(uintptr_t)address, (size_t)n->x.size[1] * bytes_of(n->type)};
}

/* Ranges that a kind does not have are those of x again. */
static dnn_result run_norm(const char *name, dnn_handle handle, unsigned int mode, struct norm *n,
                           const void *const *all)
{
    dnn_result result = begin(name);
    if (result)
        return result;
    if (mode == PER_ACTIVATION)
        return DNN_NOT_SUPPORTED;
    struct fake_library_range ranges[FAKE_LIBRARY_RANGES];
    for (int i = 0; i < FAKE_LIBRARY_RANGES; i++)
        ranges[i] = i == NORM_X || !all[i] ? range_of(&n->x, all[NORM_X])
                    : i == NORM_Y          ? range_of(&n->y, all[i])
                    : i == NORM_DX         ? range_of(&n->dx, all[i])
                                           : numbers_of(n, all[i]);
    return fake_cuda_library_submit(handle->stream, compute_norm, n, sizeof *n, ranges, FAKE_LIBRARY_RANGES)
               ? DNN_EXECUTION_FAILED
               : DNN_SUCCESS;
}

API dnn_result cudnnBatchNormalizationForwardTraining(dnn_handle handle, unsigned int mode, const void *alpha,
                                                      const void *beta, dnn_tensor of_x, const void *x, dnn_tensor of_y,
                                                      void *y, dnn_tensor of_numbers, const void *scale,
                                                      const void *bias, double factor, void *mean, void *variance,
                                                      double epsilon, void *saved_mean, void *saved_variance)
{
    (void)alpha, (void)beta, (void)saved_mean, (void)saved_variance;
    struct norm n = {of_x->array, of_y->array, of_x->array, TRAINING, of_numbers->array.type,
                     factor,      epsilon,     mean != NULL};
    const void *all[] = {x, y, scale, bias, mean, variance, NULL, NULL};
    return run_norm(__func__, handle, mode, &n, all);
}

API dnn_result cudnnBatchNormalizationForwardInference(dnn_handle handle, unsigned int mode, const void *alpha,
                                                       const void *beta, dnn_tensor of_x, const void *x,
                                                       dnn_tensor of_y, void *y, dnn_tensor of_numbers,
                                                       const void *scale, const void *bias, const void *mean,
                                                       const void *variance, double epsilon)
{
    (void)alpha, (void)beta;
    struct norm n = {of_x->array, of_y->array, of_x->array, INFERENCE, of_numbers->array.type, 0, epsilon, true};
    const void *all[] = {x, y, scale, bias, mean, variance, NULL, NULL};
    return run_norm(__func__, handle, mode, &n, all);
}

API dnn_result cudnnBatchNormalizationBackward(dnn_handle handle, unsigned int mode, const void *alpha,
                                               const void *beta, const void *alpha_numbers, const void *beta_numbers,
                                               dnn_tensor of_x, const void *x, dnn_tensor of_dy, const void *dy,
                                               dnn_tensor of_dx, void *dx, dnn_tensor of_numbers, const void *scale,
                                               void *dscale, void *dbias, double epsilon, const void *saved_mean,
                                               const void *saved_variance)
{
    (void)alpha, (void)beta, (void)alpha_numbers, (void)beta_numbers, (void)saved_mean, (void)saved_variance;
    struct norm n = {of_x->array, of_dy->array, of_dx->array, BACKWARD, of_numbers->array.type, 0, epsilon, false};
    const void *all[] = {x, dy, scale, dbias, NULL, NULL, dx, dscale};
    return run_norm(__func__, handle, mode, &n, all);
}
