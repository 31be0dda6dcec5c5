/* Descriptors of cuDNN's older interface, and its convolutions. */
#include <stdlib.h>
#include <string.h>

#include "dnn.h"

struct filter {
    int type, axes, format, size[DNN_MOST_AXES];
};

struct convolution {
    int space, pad[DNN_SPACE], stride[DNN_SPACE], dilation[DNN_SPACE], mode, compute, groups, math;
};

#define LIFE(Name, type)                                                                                               \
    API dnn_status cudnnCreate##Name##Descriptor(struct type **made);                                                  \
    API dnn_status cudnnCreate##Name##Descriptor(struct type **made)                                                   \
    {                                                                                                                  \
        if (made == NULL)                                                                                              \
            return dnn_fail(DNN_NULL_POINTER, "no place for the descriptor");                                          \
        *made = calloc(1, sizeof(**made));                                                                             \
        return *made != NULL ? DNN_SUCCESS : dnn_fail(DNN_ALLOCATION_FAILED, "no memory for a descriptor");            \
    }                                                                                                                  \
    API dnn_status cudnnDestroy##Name##Descriptor(struct type *one);                                                   \
    API dnn_status cudnnDestroy##Name##Descriptor(struct type *one)                                                    \
    {                                                                                                                  \
        free(one);                                                                                                     \
        return DNN_SUCCESS;                                                                                            \
    }
LIFE(Tensor, dnn_tensor)
LIFE(Filter, filter)
LIFE(Convolution, convolution)

static bool are_at_least(int least, int count, const int *numbers)
{
    bool good = numbers != NULL;
    for (int i = 0; good && i < count; i++)
        good = numbers[i] >= least;
    return good;
}

static bool are_sizes(int axes, const int *size)
{
    return axes >= 1 && axes <= DNN_MOST_AXES && are_at_least(1, axes, size);
}

API dnn_status cudnnSetTensorNdDescriptor(struct dnn_tensor *one, int type, int axes, const int *size,
                                          const int *stride);
API dnn_status cudnnSetTensorNdDescriptor(struct dnn_tensor *one, int type, int axes, const int *size,
                                          const int *stride)
{
    if (one == NULL || stride == NULL || !are_sizes(axes, size))
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or sizes that are not 1 or more");
    *one = (struct dnn_tensor){.type = type, .axes = axes};
    memcpy(one->size, size, (size_t)axes * sizeof(int));
    memcpy(one->stride, stride, (size_t)axes * sizeof(int));
    return DNN_SUCCESS;
}

API dnn_status cudnnGetTensorNdDescriptor(const struct dnn_tensor *one, int wanted, int *type, int *axes, int *size,
                                          int *stride);
API dnn_status cudnnGetTensorNdDescriptor(const struct dnn_tensor *one, int wanted, int *type, int *axes, int *size,
                                          int *stride)
{
    if (one == NULL || type == NULL || axes == NULL || size == NULL || stride == NULL || wanted < 0)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or no place for what it holds");
    const size_t told = (size_t)(wanted < one->axes ? wanted : one->axes);
    *type = one->type;
    *axes = one->axes;
    memcpy(size, one->size, told * sizeof(int));
    memcpy(stride, one->stride, told * sizeof(int));
    return DNN_SUCCESS;
}

API dnn_status cudnnSetFilterNdDescriptor(struct filter *one, int type, int format, int axes, const int *size);
API dnn_status cudnnSetFilterNdDescriptor(struct filter *one, int type, int format, int axes, const int *size)
{
    if (one == NULL || (format != DNN_NCHW && format != DNN_NHWC) || !are_sizes(axes, size))
        return dnn_fail(DNN_BAD_PARAM,
                        "no descriptor, a format that is not NCHW or NHWC, or sizes that are not 1 or more");
    *one = (struct filter){.type = type, .axes = axes, .format = format};
    memcpy(one->size, size, (size_t)axes * sizeof(int));
    return DNN_SUCCESS;
}

API dnn_status cudnnGetFilterNdDescriptor(const struct filter *one, int wanted, int *type, int *format, int *axes,
                                          int *size);
API dnn_status cudnnGetFilterNdDescriptor(const struct filter *one, int wanted, int *type, int *format, int *axes,
                                          int *size)
{
    if (one == NULL || type == NULL || format == NULL || axes == NULL || size == NULL || wanted < 0)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or no place for what it holds");
    *type = one->type;
    *format = one->format;
    *axes = one->axes;
    memcpy(size, one->size, (size_t)(wanted < one->axes ? wanted : one->axes) * sizeof(int));
    return DNN_SUCCESS;
}

API dnn_status cudnnSetConvolutionNdDescriptor(struct convolution *one, int space, const int *pad, const int *stride,
                                               const int *dilation, int mode, int compute);
API dnn_status cudnnSetConvolutionNdDescriptor(struct convolution *one, int space, const int *pad, const int *stride,
                                               const int *dilation, int mode, int compute)
{
    if (one == NULL || space < 2 || space > DNN_SPACE)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or %d axes of space; there are 2 or 3", space);
    if (!are_at_least(0, space, pad) || !are_at_least(1, space, stride) || !are_at_least(1, space, dilation))
        return dnn_fail(DNN_BAD_PARAM, "paddings that are negative, or strides or dilations that are not 1 or more");
    *one = (struct convolution){.space = space, .mode = mode, .compute = compute, .groups = 1};
    memcpy(one->pad, pad, (size_t)space * sizeof(int));
    memcpy(one->stride, stride, (size_t)space * sizeof(int));
    memcpy(one->dilation, dilation, (size_t)space * sizeof(int));
    return DNN_SUCCESS;
}

API dnn_status cudnnSetConvolutionGroupCount(struct convolution *one, int groups);
API dnn_status cudnnSetConvolutionGroupCount(struct convolution *one, int groups)
{
    if (one == NULL || groups < 1)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or %d groups", groups);
    one->groups = groups;
    return DNN_SUCCESS;
}

API dnn_status cudnnSetConvolutionMathType(struct convolution *one, int math);
API dnn_status cudnnSetConvolutionMathType(struct convolution *one, int math)
{
    if (one == NULL || math < DNN_DEFAULT_MATH || math > DNN_FMA_MATH)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or math type %d", math);
    one->math = math;
    return DNN_SUCCESS;
}

/* ---- convolutions -------------------------------------------------------------------------------------------------
 */

/* Parameters that the descriptors give; the host chooses the algorithm, and brings its workspace. */
static dnn_status describe(enum dnn_operation operation, const struct dnn_tensor *x, const struct filter *w,
                           const struct convolution *of, const struct dnn_tensor *y, struct dnn_convolution *p)
{
    if (x == NULL || w == NULL || of == NULL || y == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no descriptor");
    if (of->mode != DNN_CROSS_CORRELATION)
        return dnn_fail(DNN_NOT_SUPPORTED, "convolutions with mirrored filters");
    if (x->axes != of->space + 2 || w->axes != x->axes || y->axes != x->axes)
        return dnn_fail(DNN_SHAPE_MISMATCH, "tensors of %d, %d and %d axes, space of %d", x->axes, w->axes, y->axes,
                        of->space);
    if (w->type != x->type || y->type != x->type)
        return dnn_fail(DNN_DATA_TYPE, "tensors of different types");
    *p = (struct dnn_convolution){.axes = x->axes, .type = x->type, .compute = of->compute, .math = of->math};
    p->w_channels_last = w->format == DNN_NHWC;
    const size_t bytes = (size_t)x->axes * sizeof(int);
    memcpy(p->x_size, x->size, bytes);
    memcpy(p->w_size, w->size, bytes);
    memcpy(p->y_size, y->size, bytes);
    memcpy(p->x_stride, x->stride, bytes);
    memcpy(p->y_stride, y->stride, bytes);
    for (int i = 0; i < DNN_SPACE; i++) {
        p->pad[i] = of->pad[i];
        p->stride[i] = i < of->space ? of->stride[i] : 1;
        p->dilation[i] = i < of->space ? of->dilation[i] : 1;
    }
    dnn_status failed = dnn_complete(operation, p, NULL);
    if (failed == DNN_SUCCESS && p->groups != of->groups)
        return dnn_fail(DNN_SHAPE_MISMATCH, "%d groups, and channels of %lld", of->groups, (long long)p->groups);
    return failed;
}

static double factor(const void *at, int type)
{
    return type == DNN_DOUBLE ? *(const double *)at : (double)*(const float *)at;
}

static dnn_status run(struct dnn_handle *handle, enum dnn_operation operation, struct dnn_convolution *p,
                      const void *alpha, const void *beta, const void *x, const void *w, const void *y)
{
    if (!dnn_is_handle(handle) || alpha == NULL || beta == NULL || x == NULL || w == NULL || y == NULL)
        return dnn_fail(DNN_BAD_PARAM, "no handle, factor or address");
    p->alpha = factor(alpha, p->type);
    p->beta = factor(beta, p->type);
    p->x = x;
    p->w = w;
    p->y = y;
    return dnn_execute(handle->stream, operation, p);
}

API dnn_status cudnnConvolutionForward(struct dnn_handle *handle, const void *alpha, const struct dnn_tensor *of_x,
                                       const void *x, const struct filter *of_w, const void *w,
                                       const struct convolution *of, int algorithm, void *work, size_t bytes,
                                       const void *beta, const struct dnn_tensor *of_y, void *y);
API dnn_status cudnnConvolutionForward(struct dnn_handle *handle, const void *alpha, const struct dnn_tensor *of_x,
                                       const void *x, const struct filter *of_w, const void *w,
                                       const struct convolution *of, int algorithm, void *work, size_t bytes,
                                       const void *beta, const struct dnn_tensor *of_y, void *y)
{
    struct dnn_convolution p;
    (void)algorithm, (void)work, (void)bytes;
    dnn_status failed = describe(DNN_FORWARD, of_x, of_w, of, of_y, &p);
    return failed != DNN_SUCCESS ? failed : run(handle, DNN_FORWARD, &p, alpha, beta, x, w, y);
}

API dnn_status cudnnConvolutionBackwardData(struct dnn_handle *handle, const void *alpha, const struct filter *of_w,
                                            const void *w, const struct dnn_tensor *of_y, const void *y,
                                            const struct convolution *of, int algorithm, void *work, size_t bytes,
                                            const void *beta, const struct dnn_tensor *of_x, void *x);
API dnn_status cudnnConvolutionBackwardData(struct dnn_handle *handle, const void *alpha, const struct filter *of_w,
                                            const void *w, const struct dnn_tensor *of_y, const void *y,
                                            const struct convolution *of, int algorithm, void *work, size_t bytes,
                                            const void *beta, const struct dnn_tensor *of_x, void *x)
{
    struct dnn_convolution p;
    (void)algorithm, (void)work, (void)bytes;
    dnn_status failed = describe(DNN_BACKWARD_DATA, of_x, of_w, of, of_y, &p);
    return failed != DNN_SUCCESS ? failed : run(handle, DNN_BACKWARD_DATA, &p, alpha, beta, x, w, y);
}

API dnn_status cudnnConvolutionBackwardFilter(struct dnn_handle *handle, const void *alpha,
                                              const struct dnn_tensor *of_x, const void *x,
                                              const struct dnn_tensor *of_y, const void *y,
                                              const struct convolution *of, int algorithm, void *work, size_t bytes,
                                              const void *beta, const struct filter *of_w, void *w);
API dnn_status cudnnConvolutionBackwardFilter(struct dnn_handle *handle, const void *alpha,
                                              const struct dnn_tensor *of_x, const void *x,
                                              const struct dnn_tensor *of_y, const void *y,
                                              const struct convolution *of, int algorithm, void *work, size_t bytes,
                                              const void *beta, const struct filter *of_w, void *w)
{
    struct dnn_convolution p;
    (void)algorithm, (void)work, (void)bytes;
    dnn_status failed = describe(DNN_BACKWARD_FILTER, of_x, of_w, of, of_y, &p);
    return failed != DNN_SUCCESS ? failed : run(handle, DNN_BACKWARD_FILTER, &p, alpha, beta, x, w, y);
}

/* ---- workspaces: the host has its own -----------------------------------------------------------------------------
 */

#define WORKSPACE(Name)                                                                                                \
    API dnn_status cudnnGetConvolution##Name##WorkspaceSize(const void *handle, const void *a, const void *b,          \
                                                            const void *of, const void *c, int algorithm,              \
                                                            size_t *bytes);                                            \
    API dnn_status cudnnGetConvolution##Name##WorkspaceSize(                                                           \
        const void *handle, const void *a, const void *b, const void *of, const void *c, int algorithm, size_t *bytes) \
    {                                                                                                                  \
        (void)handle, (void)a, (void)b, (void)of, (void)c, (void)algorithm;                                            \
        if (bytes == NULL)                                                                                             \
            return dnn_fail(DNN_NULL_POINTER, "no place for the size");                                                \
        *bytes = 0;                                                                                                    \
        return DNN_SUCCESS;                                                                                            \
    }
WORKSPACE(Forward)
WORKSPACE(BackwardData)
WORKSPACE(BackwardFilter)
