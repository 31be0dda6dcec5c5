/* Convolutions. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <inttypes.h>

enum { MOST_STRIDE = 1 << 20 };

static const struct vgc_builtin_param CONV2D[] = {
    VGC_PARAM(vgc_conv2d_params, x, POINTER, IN, "images (batch, channels, height, width)"),
    VGC_PARAM(vgc_conv2d_params, weights, POINTER, IN, "(filters, channels // groups, kernel_h, kernel_w)"),
    VGC_PARAM(vgc_conv2d_params, y, POINTER, OUT, "(batch, filters, out_h, out_w)"),
    VGC_PARAM(vgc_conv2d_params, batch, INTEGER, VALUE, "number of images"),
    VGC_PARAM(vgc_conv2d_params, channels, INTEGER, VALUE, "channels of an image, a multiple of groups"),
    VGC_PARAM(vgc_conv2d_params, height, INTEGER, VALUE, "rows of an image"),
    VGC_PARAM(vgc_conv2d_params, width, INTEGER, VALUE, "columns of an image"),
    VGC_PARAM(vgc_conv2d_params, filters, INTEGER, VALUE, "channels of the result, a multiple of groups"),
    VGC_PARAM(vgc_conv2d_params, kernel_h, INTEGER, VALUE, "rows of a filter"),
    VGC_PARAM(vgc_conv2d_params, kernel_w, INTEGER, VALUE, "columns of a filter"),
    VGC_PARAM(vgc_conv2d_params, stride_h, INTEGER, VALUE, "rows from one place of the filter to the next"),
    VGC_PARAM(vgc_conv2d_params, stride_w, INTEGER, VALUE, "columns from one place of the filter to the next"),
    VGC_PARAM(vgc_conv2d_params, pad_h, INTEGER, VALUE, "rows of zeros above and below the image"),
    VGC_PARAM(vgc_conv2d_params, pad_w, INTEGER, VALUE, "columns of zeros to the left and right"),
    VGC_PARAM(vgc_conv2d_params, dilation_h, INTEGER, VALUE, "rows from one of the filter to the next"),
    VGC_PARAM(vgc_conv2d_params, dilation_w, INTEGER, VALUE, "columns from one of the filter to the next"),
    VGC_PARAM(vgc_conv2d_params, groups, INTEGER, VALUE, "groups of channels that do not see one another"),
};

static bool check_lengths(struct vgc_check *check, const struct vgc_conv2d_params *p)
{
    const int64_t *const lengths[] = {&p->batch, &p->channels, &p->height, &p->width, &p->filters};
    for (uint32_t i = 0; i < VGC_LENGTH_OF(lengths); i++)
        if (!vgc_check_length(check, lengths[i]))
            return false;
    const int64_t *const steps[] = {&p->kernel_h, &p->kernel_w,   &p->stride_h,
                                    &p->stride_w, &p->dilation_h, &p->dilation_w};
    for (uint32_t i = 0; i < VGC_LENGTH_OF(steps); i++)
        if (!vgc_check_number(check, steps[i], 1, MOST_STRIDE, ""))
            return false;
    return vgc_check_number(check, &p->pad_h, 0, MOST_STRIDE, "") &&
           vgc_check_number(check, &p->pad_w, 0, MOST_STRIDE, "") &&
           vgc_check_number(check, &p->groups, 1, MOST_STRIDE, "");
}

static bool check_groups(struct vgc_check *check, const struct vgc_conv2d_params *p)
{
    if (p->channels % p->groups != 0)
        return vgc_check_refuse(check, "channels is %" PRId64 "; allowed: multiples of groups, which is %" PRId64,
                                p->channels, p->groups);
    if (p->filters % p->groups != 0)
        return vgc_check_refuse(check, "filters is %" PRId64 "; allowed: multiples of groups, which is %" PRId64,
                                p->filters, p->groups);
    return true;
}

/* Places of a filter along one axis. All values are less than 2^42, and products less than 2^41. */
static int64_t places(int64_t length, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation)
{
    int64_t span = (kernel - 1) * dilation + 1;
    return length + 2 * pad < span ? 0 : (length + 2 * pad - span) / stride + 1;
}

static bool check_places(struct vgc_check *check, const struct vgc_conv2d_params *p, int64_t *high, int64_t *wide)
{
    *high = places(p->height, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h);
    *wide = places(p->width, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w);
    if (*high > 0 && *wide > 0)
        return true;
    return vgc_check_refuse(check, "%s is %" PRId64 "; allowed: at most the %s of the image with its padding",
                            *high > 0 ? "kernel_w" : "kernel_h", *high > 0 ? p->kernel_w : p->kernel_h,
                            *high > 0 ? "columns" : "rows");
}

static int check_conv2d(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_conv2d_params *p = params;
    uint32_t bytes = vgc_builtin_type_bytes(builtin->type);
    int64_t high, wide;
    uint64_t x, weights, y;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    if (!check_lengths(&check, p) || !check_groups(&check, p) || !check_places(&check, p, &high, &wide))
        return -EINVAL;
    const int64_t image[] = {p->batch, p->channels, p->height, p->width};
    const int64_t filter[] = {p->filters, p->channels / p->groups, p->kernel_h, p->kernel_w};
    const int64_t result[] = {p->batch, p->filters, high, wide};
    bool is_allowed =
        vgc_check_product(&check, &x, "batch * channels * height * width", 4, image) &&
        vgc_check_product(&check, &weights, "filters * channels / groups * kernel_h * kernel_w", 4, filter) &&
        vgc_check_product(&check, &y, "batch * filters * out_h * out_w", 4, result) &&
        vgc_check_array(&check, &p->x, x, bytes) && vgc_check_array(&check, &p->weights, weights, bytes) &&
        vgc_check_array(&check, &p->y, y, bytes) && vgc_check_apart(&check, NULL, &p->y);
    return is_allowed ? 0 : -EINVAL;
}

#define CONV2D_ROW(suffix, type_)                                                                                      \
    {.name = "conv.conv2d_" suffix,                                                                                    \
     .summary = "slides filters over images: cross-correlation, as neural networks call convolution",                  \
     .numpy = "v = sliding_window_view(padded, (span_h, span_w), (2, 3))[:, :, ::stride_h, ::stride_w, "               \
              "::dilation_h, ::dilation_w]; y = np.einsum('nchwij,ocij->nohw', v, weights), for one group",            \
     .limits = "out_h = (height + 2 * pad_h - (kernel_h - 1) * dilation_h - 1) // stride_h + 1, out_w alike; "         \
               "kernels, strides, dilations and groups are 1 to 1048576, padding 0 to 1048576",                        \
     .tolerance = "as many roundings as terms, of the sum of absolute values",                                         \
     .function = VGC_FN_CONV2D,                                                                                        \
     .type = VGC_TYPE_##type_,                                                                                         \
     VGC_TAKES(vgc_conv2d_params, CONV2D),                                                                             \
     .check = check_conv2d}

static const struct vgc_builtin BUILTINS[] = {CONV2D_ROW("f32", F32), CONV2D_ROW("f64", F64)};

const struct vgc_builtin_group vgc_builtin_conv = {
    "conv",
    "convolutions",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
