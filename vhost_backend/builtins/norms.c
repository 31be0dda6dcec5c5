/* Normalization of batches by the host's cuDNN. Checks are as in libraries.c. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <inttypes.h>

#define NORM_AXIS(array, axis, meaning)                                                                                \
    {#array #axis, offsetof(struct vgc_cudnn_normalization_params, array[axis]), 4, VGC_KIND_INTEGER, VGC_USE_VALUE,   \
     meaning}
#define NORM_AXES(array, meaning)                                                                                      \
    NORM_AXIS(array, 0, meaning), NORM_AXIS(array, 1, meaning), NORM_AXIS(array, 2, meaning),                          \
        NORM_AXIS(array, 3, meaning), NORM_AXIS(array, 4, meaning)
#define NORM_PARAM(field, kind, use, meaning) VGC_PARAM(vgc_cudnn_normalization_params, field, kind, use, meaning)
#define NORM_PARAMS(y_use, dx_use, bias_use, dscale_use, running_use, saved_use)                                       \
    NORM_PARAM(x, POINTER, IN, "images"), NORM_PARAM(y, POINTER, y_use, "results, or their gradients"),                \
        NORM_PARAM(dx, POINTER, dx_use, "gradients of the images"), NORM_PARAM(scale, POINTER, IN, "factors"),         \
        NORM_PARAM(bias, POINTER, bias_use, "biases, or their gradients"),                                             \
        NORM_PARAM(dscale, POINTER, dscale_use, "gradients of the factors"),                                           \
        NORM_PARAM(mean, POINTER, running_use, "running means, or 0"),                                                 \
        NORM_PARAM(variance, POINTER, running_use, "running variances, or 0"),                                         \
        NORM_PARAM(saved_mean, POINTER, saved_use, "means of the batch, or 0"),                                        \
        NORM_PARAM(saved_variance, POINTER, saved_use, "inverse deviations of the batch, or 0"),                       \
        NORM_PARAM(factor, FLOAT, VALUE, "part of the batch in running numbers"),                                      \
        NORM_PARAM(epsilon, FLOAT, VALUE, "added to variances"), NORM_PARAM(axes, INTEGER, VALUE, "4 or 5"),           \
        NORM_PARAM(type, INTEGER, VALUE, "cudnnDataType_t of images"),                                                 \
        NORM_PARAM(mode, INTEGER, VALUE, "cudnnBatchNormMode_t"), NORM_AXES(size, "elements"),                         \
        NORM_AXES(x_stride, "elements from one of x to the next"),                                                     \
        NORM_AXES(y_stride, "elements from one of y to the next"),                                                     \
        NORM_AXES(dx_stride, "elements from one of dx to the next"), NORM_PARAM(unused, INTEGER, VALUE, "0")

static const struct vgc_builtin_param TRAINING[] = {NORM_PARAMS(OUT, VALUE, IN, VALUE, INOUT, OUT)};
static const struct vgc_builtin_param INFERENCE[] = {NORM_PARAMS(OUT, VALUE, IN, VALUE, IN, VALUE)};
static const struct vgc_builtin_param BACKWARD[] = {NORM_PARAMS(IN, OUT, OUT, OUT, VALUE, IN)};

enum { FLOATS = 0, DOUBLES = 1, HALVES = 2, BFLOATS = 9, PER_ACTIVATION = 0, MOST_MODE = 2 };

static uint32_t element_bytes(int32_t type)
{
    return type == DOUBLES ? 8 : type == FLOATS ? 4 : type == HALVES || type == BFLOATS ? 2 : 0;
}

/* An array with strides; its extent has no more than 2^60 elements. */
static bool check_images(struct vgc_check *check, const struct vgc_cudnn_normalization_params *p,
                         const uint64_t *address, const int32_t *stride)
{
    uint64_t extent = 1;
    for (int32_t i = 0; i < p->axes; i++) {
        if (p->size[i] < 1 || stride[i] < 1)
            return vgc_check_refuse(check, "a size or stride is %" PRId32 " or %" PRId32 "; allowed: from 1 on",
                                    p->size[i], stride[i]);
        extent += (uint64_t)(p->size[i] - 1) * (uint64_t)stride[i];
        if (extent >> 60 != 0)
            return vgc_check_refuse(check, "an array reaches further than there are addresses");
    }
    return vgc_check_array(check, address, extent, element_bytes(p->type));
}

/* Numbers of channels, or of elements of an image: an array of floats, or doubles. */
static bool check_numbers(struct vgc_check *check, const struct vgc_cudnn_normalization_params *p,
                          const uint64_t *address, bool may_lack)
{
    uint64_t count = (uint64_t)p->size[1];
    for (int32_t i = 2; p->mode == PER_ACTIVATION && i < p->axes; i++)
        if (__builtin_mul_overflow(count, (uint64_t)p->size[i], &count))
            return vgc_check_refuse(check, "an image has more elements than there are addresses");
    return (may_lack && *address == 0) || vgc_check_array(check, address, count, p->type == DOUBLES ? 8 : 4);
}

static bool check_flags(struct vgc_check *check, const struct vgc_cudnn_normalization_params *p)
{
    if (element_bytes(p->type) == 0 || p->mode < 0 || p->mode > MOST_MODE ||
        (p->axes != VGC_CUDNN_AXES && p->axes != VGC_CUDNN_AXES - 1))
        return vgc_check_refuse(
            check, "type %" PRId32 ", mode %" PRId32 ", %" PRId32 " axes; allowed: 0, 1, 2 or 9; 0 to 2; 4 or 5",
            p->type, p->mode, p->axes);
    if (!(p->epsilon >= 0) || !(p->factor >= 0 && p->factor <= 1))
        return vgc_check_refuse(check, "epsilon is negative, or factor not 0 to 1");
    return true;
}

/* Means and variances come together. */
static bool check_pair(struct vgc_check *check, const struct vgc_cudnn_normalization_params *p, const uint64_t *mean,
                       const uint64_t *variance, bool may_lack)
{
    if ((*mean == 0) != (*variance == 0))
        return vgc_check_refuse(check, "means without variances, or variances without means");
    return check_numbers(check, p, mean, may_lack) && check_numbers(check, p, variance, may_lack);
}

static int check_normalization(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                               char *why)
{
    const struct vgc_cudnn_normalization_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    const bool is_backward = builtin->function == VGC_FN_CUDNN_NORMALIZE_BACKWARD;
    const bool is_training = builtin->function == VGC_FN_CUDNN_NORMALIZE_TRAINING;
    bool is_allowed = check_flags(&check, p) && check_images(&check, p, &p->x, p->x_stride) &&
                      check_images(&check, p, &p->y, p->y_stride) && check_numbers(&check, p, &p->scale, false) &&
                      check_numbers(&check, p, &p->bias, false);
    if (is_allowed && is_backward)
        is_allowed = check_images(&check, p, &p->dx, p->dx_stride) && check_numbers(&check, p, &p->dscale, false) &&
                     check_pair(&check, p, &p->saved_mean, &p->saved_variance, true);
    else if (is_allowed)
        is_allowed = check_pair(&check, p, &p->mean, &p->variance, is_training) &&
                     (!is_training || check_pair(&check, p, &p->saved_mean, &p->saved_variance, true));
    return is_allowed ? 0 : -EINVAL;
}

#define NORM_ROW(suffix, function_, table, summary_)                                                                   \
    {.name = "cudnn." suffix,                                                                                          \
     .summary = summary_,                                                                                              \
     .function = VGC_FN_CUDNN_##function_,                                                                             \
     .type = VGC_TYPE_F32,                                                                                             \
     VGC_TAKES(vgc_cudnn_normalization_params, table),                                                                 \
     .check = check_normalization}

static const struct vgc_builtin NORMS[] = {
    NORM_ROW("normalize_training", NORMALIZE_TRAINING, TRAINING, "normalizes batches by their own means and variances"),
    NORM_ROW("normalize", NORMALIZE, INFERENCE, "normalizes batches by means and variances that are given"),
    NORM_ROW("normalize_backward", NORMALIZE_BACKWARD, BACKWARD, "gradients of the normalization by a batch's own"),
};

const struct vgc_builtin_group vgc_library_cudnn_norms = {"cudnn", "cuDNN of the host", NORMS, VGC_LENGTH_OF(NORMS)};
