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
