/* Normalization of batches, as functions of the host's cuDNN. */
#include <string.h>

#include "dnn.h"

enum { WIDE = 12, NARROW = 3 + 4 * DNN_AXES + 1, ARGUMENTS = WIDE + NARROW, OPERATION_ALONE = 0 };

/* Parameters of the host's functions, in their order (vhost_backend/builtins/vgc_builtin_params.h). */
struct norm {
    const void *x, *y, *dx, *scale, *bias, *dscale, *mean, *variance, *saved_mean, *saved_variance;
    double factor, epsilon;
    int32_t axes, type, mode, size[DNN_AXES], x_stride[DNN_AXES], y_stride[DNN_AXES], dx_stride[DNN_AXES], unused;
};

_Static_assert(sizeof(struct norm) == 8 * WIDE + 4 * NARROW, "numbers lie without gaps");

static bool is_factor(const void *at, int type, double wanted)
{
    return at != NULL && (type == DNN_DOUBLE ? *(const double *)at : (double)*(const float *)at) == wanted;
}

/* Takes sizes and strides; `dx` is NULL where there are no gradients. */
static dnn_status describe(struct norm *p, int mode, const struct dnn_tensor *x, const struct dnn_tensor *y,
                           const struct dnn_tensor *dx)
{
    if (x == NULL || y == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no descriptor");
    if (x->axes != DNN_AXES && x->axes != DNN_AXES - 1)
        return dnn_fail(DNN_SHAPE, "tensors of %d axes; there are normalizations of 4 and 5", x->axes);
    const size_t bytes = (size_t)x->axes * sizeof(int);
    const struct dnn_tensor *const others[] = {y, dx != NULL ? dx : y};
    for (int i = 0; i < 2; i++)
        if (others[i]->axes != x->axes || others[i]->type != x->type || memcmp(others[i]->size, x->size, bytes) != 0)
            return dnn_fail(DNN_SHAPE_MISMATCH, "tensors of different sizes or types");
    p->axes = x->axes;
    p->type = x->type;
    p->mode = mode;
    memcpy(p->size, x->size, bytes);
    memcpy(p->x_stride, x->stride, bytes);
    memcpy(p->y_stride, y->stride, bytes);
    memcpy(p->dx_stride, others[1]->stride, bytes);
    return DNN_SUCCESS;
}

static dnn_status execute(const struct dnn_handle *handle, const char *name, struct norm *p)
{
    void *arguments[ARGUMENTS];
    char *at = (char *)p;
    if (!dnn_is_handle(handle) || p->x == NULL || p->y == NULL || p->scale == NULL || p->bias == NULL)
        return dnn_fail(DNN_BAD_PARAM, "no handle, or no address");
    const void *function = dnn_function(name);
    if (function == NULL)
        return dnn_fail(DNN_NOT_SUPPORTED, "the host of this device has no cuDNN for its VMs");
    for (int i = 0; i < WIDE; i++, at += sizeof(int64_t))
        arguments[i] = at;
    for (int i = 0; i < NARROW; i++, at += sizeof(int32_t))
        arguments[WIDE + i] = at;
    const struct dnn_dimensions one = {1, 1, 1};
    const int error = dnn_runtime()->launch(function, one, one, arguments, 0, handle->stream);
    return error == 0 ? DNN_SUCCESS : dnn_fail(DNN_EXECUTION_FAILED, "the launch failed with CUDA's error %d", error);
}

API dnn_status cudnnBatchNormalizationForwardTrainingEx(
    struct dnn_handle *handle, int mode, int operation, const void *alpha, const void *beta,
    const struct dnn_tensor *of_x, const void *x, const struct dnn_tensor *of_z, const void *z,
    const struct dnn_tensor *of_y, void *y, const struct dnn_tensor *of_numbers, const void *scale, const void *bias,
    double factor, void *mean, void *variance, double epsilon, void *saved_mean, void *saved_variance,
    const void *activation, void *work, size_t work_bytes, void *reserve, size_t reserve_bytes);
API dnn_status cudnnBatchNormalizationForwardTrainingEx(
    struct dnn_handle *handle, int mode, int operation, const void *alpha, const void *beta,
    const struct dnn_tensor *of_x, const void *x, const struct dnn_tensor *of_z, const void *z,
    const struct dnn_tensor *of_y, void *y, const struct dnn_tensor *of_numbers, const void *scale, const void *bias,
    double factor, void *mean, void *variance, double epsilon, void *saved_mean, void *saved_variance,
    const void *activation, void *work, size_t work_bytes, void *reserve, size_t reserve_bytes)
{
    struct norm p = {x,        y,          NULL,           scale,  bias,    NULL,     mean,
                     variance, saved_mean, saved_variance, factor, epsilon, .axes = 0};
    (void)of_z, (void)z, (void)of_numbers, (void)activation, (void)work, (void)work_bytes, (void)reserve;
    (void)reserve_bytes;
    dnn_status failed = describe(&p, mode, of_x, of_y, NULL);
    if (failed != DNN_SUCCESS)
        return failed;
    if (operation != OPERATION_ALONE || !is_factor(alpha, p.type, 1) || !is_factor(beta, p.type, 0))
        return dnn_fail(DNN_NOT_SUPPORTED, "a normalization with activation, or with other factors than 1 and 0");
    return execute(handle, "cudnn.normalize_training", &p);
}

API dnn_status cudnnBatchNormalizationForwardInference(struct dnn_handle *handle, int mode, const void *alpha,
                                                       const void *beta, const struct dnn_tensor *of_x, const void *x,
                                                       const struct dnn_tensor *of_y, void *y,
                                                       const struct dnn_tensor *of_numbers, const void *scale,
                                                       const void *bias, const void *mean, const void *variance,
                                                       double epsilon);
API dnn_status cudnnBatchNormalizationForwardInference(struct dnn_handle *handle, int mode, const void *alpha,
                                                       const void *beta, const struct dnn_tensor *of_x, const void *x,
                                                       const struct dnn_tensor *of_y, void *y,
                                                       const struct dnn_tensor *of_numbers, const void *scale,
                                                       const void *bias, const void *mean, const void *variance,
                                                       double epsilon)
{
    struct norm p = {x, y, NULL, scale, bias, NULL, mean, variance, NULL, NULL, 0, epsilon, .axes = 0};
    (void)of_numbers;
    dnn_status failed = describe(&p, mode, of_x, of_y, NULL);
    if (failed != DNN_SUCCESS)
        return failed;
    if (!is_factor(alpha, p.type, 1) || !is_factor(beta, p.type, 0))
        return dnn_fail(DNN_NOT_SUPPORTED, "a normalization with other factors than 1 and 0");
    return execute(handle, "cudnn.normalize", &p);
}

API dnn_status cudnnBatchNormalizationBackwardEx(
    struct dnn_handle *handle, int mode, int operation, const void *alpha, const void *beta, const void *alpha_numbers,
    const void *beta_numbers, const struct dnn_tensor *of_x, const void *x, const struct dnn_tensor *of_y,
    const void *y, const struct dnn_tensor *of_dy, const void *dy, const struct dnn_tensor *of_dz, void *dz,
    const struct dnn_tensor *of_dx, void *dx, const struct dnn_tensor *of_numbers, const void *scale, const void *bias,
    void *dscale, void *dbias, double epsilon, const void *saved_mean, const void *saved_variance,
    const void *activation, void *work, size_t work_bytes, void *reserve, size_t reserve_bytes);
API dnn_status cudnnBatchNormalizationBackwardEx(
    struct dnn_handle *handle, int mode, int operation, const void *alpha, const void *beta, const void *alpha_numbers,
    const void *beta_numbers, const struct dnn_tensor *of_x, const void *x, const struct dnn_tensor *of_y,
    const void *y, const struct dnn_tensor *of_dy, const void *dy, const struct dnn_tensor *of_dz, void *dz,
    const struct dnn_tensor *of_dx, void *dx, const struct dnn_tensor *of_numbers, const void *scale, const void *bias,
    void *dscale, void *dbias, double epsilon, const void *saved_mean, const void *saved_variance,
    const void *activation, void *work, size_t work_bytes, void *reserve, size_t reserve_bytes)
{
    struct norm p = {x, dy, dx, scale, dbias, dscale, NULL, NULL, saved_mean, saved_variance, 0, epsilon, .axes = 0};
    (void)of_y, (void)y, (void)of_dz, (void)dz, (void)of_numbers, (void)bias, (void)activation, (void)work;
    (void)work_bytes, (void)reserve, (void)reserve_bytes;
    if (of_dx == NULL || dx == NULL || dscale == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no place for gradients");
    dnn_status failed = describe(&p, mode, of_x, of_dy, of_dx);
    if (failed != DNN_SUCCESS)
        return failed;
    if (operation != OPERATION_ALONE || !is_factor(alpha, p.type, 1) || !is_factor(beta, p.type, 0) ||
        !is_factor(alpha_numbers, p.type, 1) || !is_factor(beta_numbers, p.type, 0))
        return dnn_fail(DNN_NOT_SUPPORTED, "a normalization with activation, or with other factors than 1 and 0");
    return execute(handle, "cudnn.normalize_backward", &p);
}

/* ---- workspaces: the host's functions need none -------------------------------------------------------------------
 */

static dnn_status no_bytes(size_t *bytes)
{
    if (bytes == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no place for the size");
    *bytes = 0;
    return DNN_SUCCESS;
}

API dnn_status cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const void *handle, int mode, int operation,
                                                                        const void *x, const void *z, const void *y,
                                                                        const void *numbers, const void *activation,
                                                                        size_t *bytes);
API dnn_status cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(const void *handle, int mode, int operation,
                                                                        const void *x, const void *z, const void *y,
                                                                        const void *numbers, const void *activation,
                                                                        size_t *bytes)
{
    (void)handle, (void)mode, (void)operation, (void)x, (void)z, (void)y, (void)numbers, (void)activation;
    return no_bytes(bytes);
}

API dnn_status cudnnGetBatchNormalizationBackwardExWorkspaceSize(const void *handle, int mode, int operation,
                                                                 const void *x, const void *y, const void *dy,
                                                                 const void *dz, const void *dx, const void *numbers,
                                                                 const void *activation, size_t *bytes);
API dnn_status cudnnGetBatchNormalizationBackwardExWorkspaceSize(const void *handle, int mode, int operation,
                                                                 const void *x, const void *y, const void *dy,
                                                                 const void *dz, const void *dx, const void *numbers,
                                                                 const void *activation, size_t *bytes)
{
    (void)handle, (void)mode, (void)operation, (void)x, (void)y, (void)dy, (void)dz, (void)dx, (void)numbers;
    (void)activation;
    return no_bytes(bytes);
}

API dnn_status cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const void *handle, int mode, int operation,
                                                                    const void *activation, const void *x,
                                                                    size_t *bytes);
API dnn_status cudnnGetBatchNormalizationTrainingExReserveSpaceSize(const void *handle, int mode, int operation,
                                                                    const void *activation, const void *x,
                                                                    size_t *bytes)
{
    (void)handle, (void)mode, (void)operation, (void)activation, (void)x;
    return no_bytes(bytes);
}
