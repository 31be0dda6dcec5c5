/* Normalization of batches by cuDNN. Descriptors are made for each call: they are small, and no algorithm is chosen. */
#include "cuda_engine.h"

#include "vhost_backend/builtins/vgc_builtins.h"

enum { PER_ACTIVATION = 0 };

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* Descriptors of x, y, dx and of the numbers of channels. */
struct tensors {
    dnn_tensor x, y, dx, numbers;
};

static bool make(const struct cuda_dnn *dnn, int type, int axes, const int *size, const int *stride, dnn_tensor *made)
{
    return dnn->cudnnCreateTensorDescriptor(made) == DNN_SUCCESS &&
           dnn->cudnnSetTensorNdDescriptor(*made, (unsigned int)type, axes, size, stride) == DNN_SUCCESS;
}

/* One number for each channel, or for each element of an image. */
static bool make_numbers(const struct cuda_dnn *dnn, const struct vgc_cudnn_normalization_params *p, dnn_tensor *made)
{
    int size[VGC_CUDNN_AXES], stride[VGC_CUDNN_AXES], next = 1;
    for (int i = p->axes - 1; i >= 0; i--) {
        size[i] = i == 1 || (i > 1 && p->mode == PER_ACTIVATION) ? p->size[i] : 1;
        stride[i] = next;
        next = (int)((unsigned int)next * (unsigned int)size[i]);
    }
    return make(dnn, p->type == DNN_DOUBLE ? DNN_DOUBLE : DNN_FLOAT, p->axes, size, stride, made);
}

static void end(const struct cuda_dnn *dnn, const struct tensors *made)
{
    const dnn_tensor all[] = {made->x, made->y, made->dx, made->numbers};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i] != NULL)
            dnn->cudnnDestroyTensorDescriptor(all[i]);
}

static dnn_result execute(const struct cuda_dnn *dnn, uint32_t function, const struct tensors *of,
                          const struct vgc_cudnn_normalization_params *p)
{
    static const float SINGLE[] = {1, 0};
    static const double WIDE[] = {1, 0};
    const bool is_double = p->type == DNN_DOUBLE;
    const void *one = is_double ? (const void *)&WIDE[0] : &SINGLE[0];
    const void *none = is_double ? (const void *)&WIDE[1] : &SINGLE[1];
    const unsigned int mode = (unsigned int)p->mode;
    switch (function) {
    case VGC_FN_CUDNN_NORMALIZE_TRAINING:
        return dnn->cudnnBatchNormalizationForwardTraining(
            dnn->handle, mode, one, none, of->x, pointer(p->x), of->y, pointer(p->y), of->numbers, pointer(p->scale),
            pointer(p->bias), p->factor, pointer(p->mean), pointer(p->variance), p->epsilon, pointer(p->saved_mean),
            pointer(p->saved_variance));
    case VGC_FN_CUDNN_NORMALIZE:
        return dnn->cudnnBatchNormalizationForwardInference(
            dnn->handle, mode, one, none, of->x, pointer(p->x), of->y, pointer(p->y), of->numbers, pointer(p->scale),
            pointer(p->bias), pointer(p->mean), pointer(p->variance), p->epsilon);
    default:
        return dnn->cudnnBatchNormalizationBackward(dnn->handle, mode, one, none, one, none, of->x, pointer(p->x),
                                                    of->y, pointer(p->y), of->dx, pointer(p->dx), of->numbers,
                                                    pointer(p->scale), pointer(p->dscale), pointer(p->bias), p->epsilon,
                                                    pointer(p->saved_mean), pointer(p->saved_variance));
    }
}

dnn_result cuda_dnn_normalize(const struct cuda_dnn *dnn, drv_stream stream, uint32_t function,
                              const struct vgc_cudnn_normalization_params *p)
{
    struct tensors made = {.x = NULL};
    const bool has_dx = function == VGC_FN_CUDNN_NORMALIZE_BACKWARD;
    dnn_result result = dnn->cudnnSetStream(dnn->handle, stream);
    if (result == DNN_SUCCESS) {
        const bool are_made = make(dnn, p->type, p->axes, p->size, p->x_stride, &made.x) &&
                              make(dnn, p->type, p->axes, p->size, p->y_stride, &made.y) &&
                              (!has_dx || make(dnn, p->type, p->axes, p->size, p->dx_stride, &made.dx)) &&
                              make_numbers(dnn, p, &made.numbers);
        result = are_made ? execute(dnn, function, &made, p) : DNN_NOT_SUPPORTED;
    }
    end(dnn, &made);
    return result;
}
