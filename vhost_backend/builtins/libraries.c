/* Functions that NVIDIA's libraries compute on the host's GPU: thin libraries in the guest call them by name.
 *
 * What the library is told is checked here, so that it meets no sizes but those whose memory the VM has. Arrays may
 * overlap, as the libraries allow; results are then undefined, but within the VM's memory. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>
#include <inttypes.h>

static const struct vgc_builtin_param GEMM[] = {
    VGC_PARAM(vgc_cublas_gemm_params, op_a, INTEGER, VALUE, "0: a; 1: a is transposed; 2: and conjugated"),
    VGC_PARAM(vgc_cublas_gemm_params, op_b, INTEGER, VALUE, "likewise of b"),
    VGC_PARAM(vgc_cublas_gemm_params, m, INTEGER, VALUE, "rows of c"),
    VGC_PARAM(vgc_cublas_gemm_params, n, INTEGER, VALUE, "columns of c"),
    VGC_PARAM(vgc_cublas_gemm_params, k, INTEGER, VALUE, "terms of each sum"),
    VGC_PARAM(vgc_cublas_gemm_params, alpha, FLOAT, VALUE, "factor of the product"),
    VGC_PARAM(vgc_cublas_gemm_params, alpha_imaginary, FLOAT, VALUE, "its imaginary part"),
    VGC_PARAM(vgc_cublas_gemm_params, a, POINTER, IN, "matrices"),
    VGC_PARAM(vgc_cublas_gemm_params, lda, INTEGER, VALUE, "elements from one column of a to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, stride_a, INTEGER, VALUE, "elements from one matrix to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, b, POINTER, IN, "matrices"),
    VGC_PARAM(vgc_cublas_gemm_params, ldb, INTEGER, VALUE, "elements from one column of b to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, stride_b, INTEGER, VALUE, "elements from one matrix to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, beta, FLOAT, VALUE, "factor of c; 0: c is not read"),
    VGC_PARAM(vgc_cublas_gemm_params, beta_imaginary, FLOAT, VALUE, "its imaginary part"),
    VGC_PARAM(vgc_cublas_gemm_params, c, POINTER, INOUT, "matrices"),
    VGC_PARAM(vgc_cublas_gemm_params, ldc, INTEGER, VALUE, "elements from one column of c to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, stride_c, INTEGER, VALUE, "elements from one matrix to the next"),
    VGC_PARAM(vgc_cublas_gemm_params, batch, INTEGER, VALUE, "number of products"),
    VGC_PARAM(vgc_cublas_gemm_params, in_type, INTEGER, VALUE, "cudaDataType of a and b"),
    VGC_PARAM(vgc_cublas_gemm_params, out_type, INTEGER, VALUE, "cudaDataType of c"),
    VGC_PARAM(vgc_cublas_gemm_params, compute, INTEGER, VALUE, "cublasComputeType_t"),
    VGC_PARAM(vgc_cublas_gemm_params, math, INTEGER, VALUE, "cublasMath_t"),
};

/* Types of products: of elements, and of sums, which the library may compute in less precision if it is told so. */
static const struct gemm_types {
    int32_t in, out;
    uint32_t in_bytes, out_bytes;
    int32_t compute[6]; /* ends with 0 */
} GEMM_TYPES[] = {
    {0, 0, 4, 4, {68, 69, 74, 75, 77}}, /* R_32F; 32F, pedantic, fast by 16F, 16BF, TF32 */
    {1, 1, 8, 8, {70, 71}},             /* R_64F */
    {2, 2, 2, 2, {68, 69}},             /* R_16F; half precision of sums has other factors */
    {2, 0, 2, 4, {68, 69}},
    {14, 14, 2, 2, {68, 69}}, /* R_16BF */
    {14, 0, 2, 4, {68, 69}},
    {4, 4, 8, 8, {68, 69, 74, 75, 77}}, /* C_32F */
    {5, 5, 16, 16, {70, 71}},           /* C_64F */
};

enum { MOST_OPERATION = 2, MATH_FLAGS = 16, MOST_MATH = 3 };

static const struct gemm_types *gemm_types_of(const struct vgc_cublas_gemm_params *p)
{
    for (uint32_t i = 0; i < VGC_LENGTH_OF(GEMM_TYPES); i++)
        for (const int32_t *compute = GEMM_TYPES[i].compute; *compute != 0; compute++)
            if (GEMM_TYPES[i].in == p->in_type && GEMM_TYPES[i].out == p->out_type && *compute == p->compute)
                return &GEMM_TYPES[i];
    return NULL;
}

/* A batch of matrices of `rows` and `columns` as they are stored. */
static bool check_columns(struct vgc_check *check, const uint64_t *address, int64_t rows, int64_t columns,
                          const int64_t *ld, const int64_t *stride, int64_t batch, uint32_t bytes)
{
    if (!vgc_check_number(check, ld, rows > 1 ? rows : 1, VGC_BUILTIN_LONGEST, "from the rows of the matrix on") ||
        !vgc_check_number(check, stride, 0, VGC_BUILTIN_LONGEST, ""))
        return false;
    if (rows == 0 || columns == 0)
        return true;
    unsigned __int128 last = (unsigned __int128)(columns - 1) * (uint64_t)*ld + (uint64_t)rows +
                             (unsigned __int128)(batch - 1) * (uint64_t)*stride;
    return vgc_check_array(check, address, last >> 60 != 0 ? UINT64_MAX : (uint64_t)last, bytes);
}

static int check_gemm(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_cublas_gemm_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    const struct gemm_types *types = gemm_types_of(p);
    bool is_known = types != NULL && p->op_a >= 0 && p->op_a <= MOST_OPERATION && p->op_b >= 0 &&
                    p->op_b <= MOST_OPERATION && p->math >= 0 && (p->math & ~MATH_FLAGS) <= MOST_MATH;
    if (!is_known) {
        vgc_check_refuse(&check,
                         "op_a %" PRId32 ", op_b %" PRId32 ", types %" PRId32 " and %" PRId32 ", compute %" PRId32
                         ", math %" PRId32 "; allowed: operations 0 to 2, and types as cublasGemmEx() has them",
                         p->op_a, p->op_b, p->in_type, p->out_type, p->compute, p->math);
        return -EINVAL;
    }
    bool has_sizes =
        vgc_check_number(&check, &p->m, 1, INT32_MAX, "") && vgc_check_number(&check, &p->n, 1, INT32_MAX, "") &&
        vgc_check_number(&check, &p->k, 0, INT32_MAX, "") && vgc_check_number(&check, &p->batch, 1, INT32_MAX, "");
    bool is_allowed = has_sizes &&
                      check_columns(&check, &p->a, p->op_a != 0 ? p->k : p->m, p->op_a != 0 ? p->m : p->k, &p->lda,
                                    &p->stride_a, p->batch, types->in_bytes) &&
                      check_columns(&check, &p->b, p->op_b != 0 ? p->n : p->k, p->op_b != 0 ? p->k : p->n, &p->ldb,
                                    &p->stride_b, p->batch, types->in_bytes) &&
                      check_columns(&check, &p->c, p->m, p->n, &p->ldc, &p->stride_c, p->batch, types->out_bytes);
    return is_allowed ? 0 : -EINVAL;
}

static const struct vgc_builtin CUBLAS[] = {{.name = "cublas.gemm",
                                             .summary = "products of matrices by the host's cuBLAS",
                                             .function = VGC_FN_CUBLAS_GEMM,
                                             .type = VGC_TYPE_F32,
                                             VGC_TAKES(vgc_cublas_gemm_params, GEMM),
                                             .check = check_gemm}};

const struct vgc_builtin_group vgc_library_cublas = {"cublas", "cuBLAS of the host", CUBLAS, VGC_LENGTH_OF(CUBLAS)};

/* ---- cuDNN ------------------------------------------------------------------------------------------------------ */

#define CONVOLUTION_AXIS(array, axis, meaning)                                                                         \
    {#array #axis, offsetof(struct vgc_cudnn_convolution_params, array[axis]), 4, VGC_KIND_INTEGER, VGC_USE_VALUE,     \
     meaning}
#define CONVOLUTION_SPACE(array, meaning)                                                                              \
    CONVOLUTION_AXIS(array, 0, meaning), CONVOLUTION_AXIS(array, 1, meaning), CONVOLUTION_AXIS(array, 2, meaning)
#define CONVOLUTION_AXES(array, meaning)                                                                               \
    CONVOLUTION_SPACE(array, meaning), CONVOLUTION_AXIS(array, 3, meaning), CONVOLUTION_AXIS(array, 4, meaning)
#define CONVOLUTION_PARAMS(x_use, w_use, y_use)                                                                        \
    VGC_PARAM(vgc_cudnn_convolution_params, x, POINTER, x_use, "images, or their gradients"),                          \
        VGC_PARAM(vgc_cudnn_convolution_params, w, POINTER, w_use, "filters, or their gradients"),                     \
        VGC_PARAM(vgc_cudnn_convolution_params, y, POINTER, y_use, "results, or their gradients"),                     \
        VGC_PARAM(vgc_cudnn_convolution_params, alpha, FLOAT, VALUE, "factor of the result"),                          \
        VGC_PARAM(vgc_cudnn_convolution_params, beta, FLOAT, VALUE, "factor of what is written; 0: not read"),         \
        VGC_PARAM(vgc_cudnn_convolution_params, axes, INTEGER, VALUE, "4 or 5"),                                       \
        VGC_PARAM(vgc_cudnn_convolution_params, type, INTEGER, VALUE, "cudnnDataType_t of all arrays"),                \
        VGC_PARAM(vgc_cudnn_convolution_params, compute, INTEGER, VALUE, "cudnnDataType_t of sums"),                   \
        VGC_PARAM(vgc_cudnn_convolution_params, math, INTEGER, VALUE, "cudnnMathType_t"),                              \
        VGC_PARAM(vgc_cudnn_convolution_params, w_channels_last, INTEGER, VALUE, "1: channels of w lie together"),     \
        VGC_PARAM(vgc_cudnn_convolution_params, deterministic, INTEGER, VALUE, "1: the same bits each time"),          \
        CONVOLUTION_AXES(x_size, "elements of x"), CONVOLUTION_AXES(w_size, "elements of w"),                          \
        CONVOLUTION_AXES(y_size, "elements of y"), CONVOLUTION_AXES(x_stride, "elements from one of x to the next"),   \
        CONVOLUTION_AXES(y_stride, "elements from one of y to the next"),                                              \
        CONVOLUTION_SPACE(pad, "zeros on each side"),                                                                  \
        CONVOLUTION_SPACE(stride, "elements from one place of a filter to the next"),                                  \
        CONVOLUTION_SPACE(dilation, "elements from one of a filter to the next"),                                      \
        VGC_PARAM(vgc_cudnn_convolution_params, groups, INTEGER, VALUE, "groups of channels")

static const struct vgc_builtin_param FORWARD[] = {CONVOLUTION_PARAMS(IN, IN, INOUT)};
static const struct vgc_builtin_param BACKWARD_DATA[] = {CONVOLUTION_PARAMS(INOUT, IN, IN)};
static const struct vgc_builtin_param BACKWARD_FILTER[] = {CONVOLUTION_PARAMS(IN, INOUT, IN)};

enum { DNN_FLOAT = 0, DNN_DOUBLE = 1, DNN_HALF = 2, DNN_BFLOAT = 9, DNN_FMA = 3 };

/* Bytes of an element; 0: a type that is not allowed, or not with these sums. */
static uint32_t element_bytes(int32_t type, int32_t compute)
{
    if (type == DNN_DOUBLE)
        return compute == DNN_DOUBLE ? 8 : 0;
    if (compute != DNN_FLOAT)
        return 0;
    return type == DNN_FLOAT ? 4 : type == DNN_HALF || type == DNN_BFLOAT ? 2 : 0;
}

/* A number of an axis, or a flag; the text does not tell them apart. */
static bool check_between(struct vgc_check *check, int32_t value, int32_t least, int32_t most)
{
    int64_t number = value;
    if (number >= least && number <= most)
        return true;
    return vgc_check_refuse(
        check, "a size, stride, padding, dilation or flag is %" PRId32 "; allowed: %" PRId32 " to %" PRId32, value,
        least, most);
}

static bool check_flags(struct vgc_check *check, const struct vgc_cudnn_convolution_params *p)
{
    if (element_bytes(p->type, p->compute) == 0)
        return vgc_check_refuse(check,
                                "type %" PRId32 " with sums of type %" PRId32
                                "; allowed: 0 (float), 2 (half), 9 (bfloat) with 0, and 1 (double) with 1",
                                p->type, p->compute);
    return check_between(check, p->axes, VGC_CUDNN_AXES - 1, VGC_CUDNN_AXES) &&
           check_between(check, p->math, 0, DNN_FMA) && check_between(check, p->w_channels_last, 0, 1) &&
           check_between(check, p->deterministic, 0, 1) && vgc_check_number(check, &p->groups, 1, INT32_MAX, "");
}

/* Elements from the first to behind the last one of an array with strides; false: its sizes are not allowed. */
static bool check_extent(struct vgc_check *check, int32_t axes, const int32_t *size, const int32_t *stride,
                         uint64_t *extent)
{
    *extent = 1;
    for (int32_t i = 0; i < axes; i++) {
        if (!check_between(check, size[i], 1, INT32_MAX) || !check_between(check, stride[i], 1, INT32_MAX))
            return false;
        *extent += (uint64_t)(size[i] - 1) * (uint64_t)stride[i];
        if (*extent >> 60 != 0)
            return vgc_check_refuse(check, "an array reaches further than there are addresses");
    }
    return true;
}

static bool check_filter(struct vgc_check *check, const struct vgc_cudnn_convolution_params *p, uint64_t *count)
{
    *count = 1;
    for (int32_t i = 0; i < p->axes; i++)
        if (!check_between(check, p->w_size[i], 1, INT32_MAX) ||
            __builtin_mul_overflow(*count, (uint64_t)p->w_size[i], count))
            return vgc_check_refuse(check, "w has no elements, or more than there are addresses");
    return true;
}

static bool check_channels(struct vgc_check *check, const struct vgc_cudnn_convolution_params *p)
{
    bool fit = p->x_size[0] == p->y_size[0] && p->w_size[1] * p->groups == p->x_size[1] &&
               p->w_size[0] == p->y_size[1] && p->w_size[0] % p->groups == 0;
    return fit ||
           vgc_check_refuse(check, "batches or channels of x, w and y do not fit each other, in %" PRId64 " groups",
                            p->groups);
}

/* The sizes of y follow from the others. All terms are less than 2^63. */
static bool check_space(struct vgc_check *check, const struct vgc_cudnn_convolution_params *p)
{
    for (int32_t i = 0; i + 2 < p->axes; i++) {
        if (!check_between(check, p->pad[i], 0, INT32_MAX) || !check_between(check, p->stride[i], 1, INT32_MAX) ||
            !check_between(check, p->dilation[i], 1, INT32_MAX))
            return false;
        int64_t span = (int64_t)p->dilation[i] * (p->w_size[i + 2] - 1) + 1;
        int64_t padded = (int64_t)p->x_size[i + 2] + 2 * (int64_t)p->pad[i];
        int64_t places = padded < span ? 0 : (padded - span) / p->stride[i] + 1;
        if (places != p->y_size[i + 2])
            return vgc_check_refuse(check,
                                    "y has %" PRId32 " elements along an axis; a filter has %" PRId64 " places there",
                                    p->y_size[i + 2], places);
    }
    return true;
}

static int check_convolution(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                             char *why)
{
    const struct vgc_cudnn_convolution_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    uint32_t bytes = element_bytes(p->type, p->compute);
    uint64_t x, w, y;
    bool is_allowed = check_flags(&check, p) && check_extent(&check, p->axes, p->x_size, p->x_stride, &x) &&
                      check_filter(&check, p, &w) && check_extent(&check, p->axes, p->y_size, p->y_stride, &y) &&
                      check_channels(&check, p) && check_space(&check, p) && vgc_check_array(&check, &p->x, x, bytes) &&
                      vgc_check_array(&check, &p->w, w, bytes) && vgc_check_array(&check, &p->y, y, bytes);
    return is_allowed ? 0 : -EINVAL;
}

#define CONVOLUTION_ROW(suffix, function_, table, summary_)                                                            \
    {.name = "cudnn.convolution_" suffix,                                                                              \
     .summary = summary_,                                                                                              \
     .function = VGC_FN_CUDNN_##function_,                                                                             \
     .type = VGC_TYPE_F32,                                                                                             \
     VGC_TAKES(vgc_cudnn_convolution_params, table),                                                                   \
     .check = check_convolution}

static const struct vgc_builtin CUDNN[] = {
    CONVOLUTION_ROW("forward", FORWARD, FORWARD, "convolution (cross-correlation) by the host's cuDNN"),
    CONVOLUTION_ROW("backward_data", BACKWARD_DATA, BACKWARD_DATA, "its gradient with respect to the images"),
    CONVOLUTION_ROW("backward_filter", BACKWARD_FILTER, BACKWARD_FILTER, "its gradient with respect to the filters"),
};

const struct vgc_builtin_group vgc_library_cudnn = {"cudnn", "cuDNN of the host", CUDNN, VGC_LENGTH_OF(CUDNN)};
