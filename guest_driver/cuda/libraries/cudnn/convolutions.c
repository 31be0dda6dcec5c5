/* Convolutions, as functions of the host's cuDNN. */
#include <pthread.h>
#include <stdio.h>

#include "dnn.h"

enum { WIDE_FIRST = 5, NARROW = 6 + 5 * DNN_AXES + 3 * DNN_SPACE, ARGUMENTS = WIDE_FIRST + NARROW + 1 };

_Static_assert(offsetof(struct dnn_convolution, groups) == 8 * WIDE_FIRST + 4 * NARROW, "numbers lie without gaps");

static const char *const NAMES[] = {
    [DNN_FORWARD] = "cudnn.convolution_forward",
    [DNN_BACKWARD_DATA] = "cudnn.convolution_backward_data",
    [DNN_BACKWARD_FILTER] = "cudnn.convolution_backward_filter",
};

static pthread_once_t told = PTHREAD_ONCE_INIT;

static void tell(void)
{
    (void)fprintf(stderr,
                  "virtio-gpu-compute: the host of this device has no cuDNN for its VMs, so there are no functions "
                  "by cuDNN. In PyTorch, torch.backends.cudnn.enabled = False has its own kernels compute; "
                  "on the host, the engine's option 'libraries: auto' and cuDNN's package give it to the VM\n");
}

const void *dnn_function(const char *name)
{
    const struct dnn_runtime *runtime = dnn_runtime();
    const void *function = NULL;
    if (runtime != NULL && runtime->find(name, &function) == 0)
        return function;
    (void)pthread_once(&told, tell);
    return NULL;
}

static bool is_packed(const struct dnn_convolution *p, const int64_t *stride, bool channels_last)
{
    int64_t next = channels_last ? p->w_size[1] : 1;
    for (int i = p->axes - 1; i >= 0; i--) {
        const bool is_channels = i == 1 && channels_last;
        if (p->w_size[i] > 1 && stride[i] != (is_channels ? 1 : next))
            return false;
        if (!is_channels && __builtin_mul_overflow(next, (int64_t)p->w_size[i], &next))
            return false;
    }
    return true;
}

dnn_status dnn_complete(enum dnn_operation operation, struct dnn_convolution *p, const int64_t *w_stride)
{
    const bool is_double = p->type == DNN_DOUBLE;
    if ((!is_double && p->type != DNN_FLOAT && p->type != DNN_HALF && p->type != DNN_BFLOAT16) ||
        p->compute != (is_double ? DNN_DOUBLE : DNN_FLOAT))
        return dnn_fail(DNN_DATA_TYPE, "elements of type %d with sums of type %d", p->type, p->compute);
    if (p->w_size[1] < 1 || p->x_size[1] < 1 || p->x_size[1] % p->w_size[1] != 0)
        return dnn_fail(DNN_SHAPE_MISMATCH, "%d channels, and %d of a filter", p->x_size[1], p->w_size[1]);
    p->groups = p->x_size[1] / p->w_size[1];
    if (w_stride != NULL) {
        p->w_channels_last = !is_packed(p, w_stride, false);
        if (p->w_channels_last && !is_packed(p, w_stride, true))
            return dnn_fail(DNN_LAYOUT, "filters lie neither as NCHW nor as NHWC");
    }
    if (dnn_function(NAMES[operation]) == NULL)
        return dnn_fail(DNN_NOT_SUPPORTED, "the host of this device has no cuDNN for its VMs");
    return DNN_SUCCESS;
}

dnn_status dnn_execute(void *stream, enum dnn_operation operation, struct dnn_convolution *p)
{
    void *arguments[ARGUMENTS];
    char *at = (char *)p;
    const void *function = dnn_function(NAMES[operation]);
    if (function == NULL)
        return dnn_fail(DNN_NOT_SUPPORTED, "the host of this device has no cuDNN for its VMs");
    for (int i = 0; i < WIDE_FIRST; i++, at += sizeof(int64_t))
        arguments[i] = at;
    for (int i = 0; i < NARROW; i++, at += sizeof(int32_t))
        arguments[WIDE_FIRST + i] = at;
    arguments[ARGUMENTS - 1] = at;
    const struct dnn_dimensions one = {1, 1, 1};
    const int error = dnn_runtime()->launch(function, one, one, arguments, 0, stream);
    return error == 0 ? DNN_SUCCESS : dnn_fail(DNN_EXECUTION_FAILED, "the launch failed with CUDA's error %d", error);
}
